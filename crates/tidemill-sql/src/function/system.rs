//! Functions about the session and about values.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Expr, Volatility};

use arrow::array::{Array, ArrayRef};

use super::kernel::{Int4, Text, Timestamptz, Uuid};
use super::{Call, Param, Registry, Returns};
use crate::error::Result;
use crate::planner::vars;
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
    for name in ["current_user", "session_user", "user", "current_role"] {
        r.nullary::<Text>(name, Volatility::Stable, |vars| Ok(vars.user.clone()));
    }
    for name in ["current_database", "current_catalog"] {
        r.nullary::<Text>(name, Volatility::Stable, |vars| Ok(vars.database.clone()));
    }
    r.nullary::<Text>("current_schema", Volatility::Stable, |vars| {
        // `$user` is the schema of the user's name, which nobody has.
        Ok(vars.search_path.iter().find(|schema| *schema != "$user").cloned().unwrap_or_default())
    });
    for name in ["now", "transaction_timestamp", "current_timestamp"] {
        r.nullary::<Timestamptz>(name, Volatility::Stable, |vars| Ok(vars.transaction_now.us()));
    }
    r.nullary::<Timestamptz>("statement_timestamp", Volatility::Stable, |vars| Ok(vars.statement_now_us));
    r.nullary::<Timestamptz>("clock_timestamp", Volatility::Volatile, |_| Ok(vars::now_us()));
    for name in ["gen_random_uuid", "uuid_generate_v4"] {
        r.nullary::<Uuid>(name, Volatility::Volatile, |_| Ok(random_uuid()));
    }
    let int = Returns::Is(Type::new(Scalar::Int4));
    r.variadic("num_nulls", &[Param::Any], int, |call| count(call, true));
    r.variadic("num_nonnulls", &[Param::Any], int, |call| count(call, false));
    // The type is known when the call is planned; this is what a plan made otherwise would run.
    r.kernel("pg_typeof", &[Param::Any], Returns::Is(Type::new(Scalar::Text)), |call| {
        let name = call.types[0].with_typmod(-1).display();
        call.rows::<Text>(|_| Ok(Some(name.clone())))
    });
}

/// `pg_typeof` of a type, as a constant.
pub fn type_name(name: &str) -> Result<Expr> {
    crate::planner::coerce::cast_expr(
        Expr::Literal(ScalarValue::Utf8(Some(name.to_string())), None),
        None,
        Type::new(Scalar::Text),
        crate::planner::coerce::Context::Implicit,
    )
}

fn count(call: &Call, nulls: bool) -> Result<ArrayRef> {
    call.rows::<Int4>(|row| {
        let matching = call.inputs.iter().filter(|input| input.array.is_null(input.index(row)) == nulls);
        Ok(Some(matching.count() as i32))
    })
}

/// Version 4: 122 random bits.
fn random_uuid() -> [u8; 16] {
    let mut bytes = [0; 16];
    for half in bytes.chunks_mut(8) {
        half.copy_from_slice(&super::math::random_bits().to_le_bytes());
    }
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}
