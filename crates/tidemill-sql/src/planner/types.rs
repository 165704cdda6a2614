//! Types for DataFusion's planner.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::logical_expr::planner::TypePlanner;
use sqlparser::ast::DataType;

use crate::data_type::type_of;
use crate::function::external;

/// Lets DataFusion's planner read types as we do (column definitions and the like; casts never get that far).
#[derive(Debug)]
pub struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql_type: &DataType) -> datafusion::error::Result<Option<FieldRef>> {
        let ty = type_of(sql_type).map_err(external)?;
        Ok(Some(Arc::new(ty.field(""))))
    }
}
