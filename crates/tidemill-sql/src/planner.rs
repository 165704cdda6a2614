//! PostgreSQL's meaning of SQL on DataFusion's planner.
//!
//! A statement is prepared ([`prepare`]: names, literals, constructs become markers), planned by DataFusion with our
//! hooks (`lower`: each operator, cast and call is resolved by PostgreSQL's rules and becomes a typed expression), and
//! analyzed (`set_operation`). Errors come back through [`plan_error`].
//!
//! ```text
//! text ─ parser ─► AST ─ prepare ─► AST with markers ─ DataFusion + lower ─► typed LogicalPlan
//! ```

mod allowed;
mod apart;
mod apply;
mod array_subquery;
mod call;
mod clause;
pub mod coerce;
mod compared_column;
mod constant_subquery;
mod construct;
mod correlated;
mod distinct_from;
mod doubled_column;
mod doubtful_key;
mod embedded_projection;
mod equal_expression;
mod equality;
mod error;
mod foreign_clause;
mod from_function;
mod grouping;
mod grouping_expression;
mod grouping_key;
mod guard;
mod hint;
mod join_subquery;
mod kept_condition;
mod last_branch;
mod lazy_value;
mod lower;
mod marker;
mod membership;
mod merged_column;
mod name;
mod named_window;
mod nesting;
mod null_safe_join;
mod null_side;
mod nullable_subquery;
mod obstacle;
mod offset_order;
mod opaque;
mod ordered;
mod outer_name;
pub mod parameter;
mod pass;
mod pattern_list;
mod place;
mod prepare;
mod relkind;
pub mod resolve;
mod row_membership;
mod same_name;
mod series;
mod set_operation;
mod single_value;
mod sort_together;
mod system_column;
mod table_function;
mod ties;
pub mod types;
mod values;
pub mod vars;
mod whole_order;
mod whole_row;
mod window_function;
mod within_group;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::Dialect;
use datafusion::execution::{SessionStateBuilder, SessionStateDefaults};
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::functions_aggregate::grouping::grouping_udaf;
use datafusion::functions_table::generate_series;
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

use crate::aggregate;

pub use constant_subquery::{constant_subqueries, exists_as_values, with_values};
pub use doubled_column::check_doubled;
pub use error::{plan_error, plan_error_in};
pub(crate) use from_function::query_of;
pub use hint::closest;
pub use marker::assigned;
pub use name::display_name;
pub use obstacle::{transform_obstacle, view_obstacle};
pub use pass::{Pass, PassExec};
pub use prepare::{check_returning, prepare, prepare_expr, prepare_query, prepare_text};
pub use relkind::CONTINUOUS_OPTION;
pub use series::SeriesInPieces;
pub use set_operation::unify_all;
pub use sort_together::SortTogether;
pub use vars::SessionVars;
pub use whole_order::WholeOrder;

/// The schema that a name without one is looked up in: it stands for all schemas of the search path. Nobody can write it.
pub const UNQUALIFIED: &str = "search path";

/// A builder of session states that plan PostgreSQL's SQL.
pub fn session_state_builder() -> SessionStateBuilder {
    configure(SessionStateBuilder::new().with_config(session_config()))
}

/// The configuration that the hooks rely on.
pub fn session_config() -> SessionConfig {
    let mut config = SessionConfig::new().with_target_partitions(1).with_information_schema(false);
    let options = config.options_mut();
    options.catalog.default_catalog = "tidemill".into();
    options.catalog.default_schema = UNQUALIFIED.into();
    options.sql_parser.dialect = Dialect::PostgreSQL;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.collect_spans = true;
    // Ours to sort out: literals are typed by us, and view types do not reach the wire.
    options.sql_parser.parse_float_as_decimal = true;
    options.optimizer.expand_views_at_output = true;
    // As in PostgreSQL, rows of an ordered subquery come in its order.
    options.sql_parser.enable_subquery_sort_elimination = false;
    options.execution.time_zone = None;
    // It wants fields to say of an expression what they said before it was simplified: whether there may be nulls, which
    // modifier its type has. Neither changes a value.
    options.execution.skip_physical_aggregate_schema_check = true;
    options.extensions.insert(SessionVars::default());
    config
}

/// Gives a state that is being built our planners, rules and functions, and those of DataFusion's functions that do as
/// PostgreSQL's of the same name. All that DataFusion has would be some megabytes of code that is only ever registered.
pub fn configure(builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut planners = SessionStateDefaults::default_expr_planners();
    planners.insert(0, Arc::new(lower::Lowering));
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(set_operation::UnionTypes));
    rules.insert(1, Arc::new(ties::WithTies));
    rules.insert(2, Arc::new(ordered::OrderedRows));
    rules.insert(3, Arc::new(nullable_subquery::NullableSubqueries));
    rules.insert(4, Arc::new(correlated::CorrelatedSubqueries));
    rules.insert(5, Arc::new(equality::EqualValues));
    let coercion = rules.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(rules.len());
    rules.insert(coercion, Arc::new(grouping_expression::GroupingExpressions));
    // DataFusion makes `first_value` of DISTINCT ON; with its name, `prepare` lets only window functions through.
    let mut aggregates = vec![grouping_udaf(), first_value_udaf()];
    aggregates.extend(aggregate::all());
    let mut windows = SessionStateDefaults::default_window_functions();
    windows.retain(|f| window_function::NAMES.contains(&f.name()));
    // Only with literals that `prepare` has looked at.
    let tables = HashMap::from([("generate_series".to_owned(), generate_series())]);
    // It would take DISTINCT away from an aggregate and with it the order that DISTINCT gives; ours mind it themselves.
    let rewrites = Optimizer::new().rules.into_iter();
    let rewrites =
        rewrites.filter(|rule| rule.name() != "single_distinct_aggregation_to_group_by").map(guard::guarded);
    builder
        .with_optimizer_rules(rewrites.collect())
        .with_physical_optimizer_rules(physical_rules())
        .with_expr_planners(planners)
        .with_type_planner(Arc::new(types::Types))
        .with_relation_planners(vec![Arc::new(set_operation::relation::SetOperations)])
        .with_analyzer_rules(rules)
        // Ours are in our own registry; DataFusion's follow other rules and many have other names.
        .with_scalar_functions(vec![Arc::new(marker::Pack::udf())])
        .with_higher_order_functions(vec![])
        .with_aggregate_functions(aggregates)
        .with_window_functions(windows)
        .with_table_functions(tables)
}

/// DataFusion's rules for physical plans, as they are right. Those of the federation come around them.
pub fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = vec![Arc::new(grouping_key::GroupingKeys) as _];
    for rule in PhysicalOptimizer::new().rules {
        match rule.name() {
            "FilterPushdown" => {
                rules.push(Arc::new(same_name::Guarded(rule)) as _);
                rules.push(Arc::new(equal_expression::EqualExpressions) as _);
            }
            "EnsureRequirements" => rules.extend([
                Arc::new(null_side::NullSides) as _,
                Arc::new(offset_order::OffsetOrder) as _,
                rule,
            ]),
            "ProjectionPushdown" => {
                rules.push(Arc::new(embedded_projection::Unfolded(rule)) as _);
                rules.push(Arc::new(null_side::NullSides) as _);
                rules.push(Arc::new(whole_order::WholeOrder) as _);
            }
            _ => rules.push(rule),
        }
    }
    rules
}

#[cfg(test)]
mod tests;
