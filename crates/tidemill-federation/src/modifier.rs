//! The modifiers of types, `numeric(5,1)` and `varchar(20)`: what is asked of a column is asked of the values there, so these
//! have to be what the foreign table says that they are.

use tidemill_sql::types::{Scalar, Type};

/// Whether every value of a type there is, as it is, one of a type here. But for their modifiers the types fit.
pub fn is_within(theirs: Type, ours: Type) -> bool {
    use Scalar::*;
    if ours.typmod < 0 {
        return true;
    }
    match (ours.scalar, theirs.scalar) {
        // A time without a modifier has six digits behind the second.
        (Time | Timestamp | Timestamptz, _) => (0..=ours.typmod).contains(&theirs.typmod) || ours.typmod == 6,
        (Varchar, Varchar | Bpchar) => (0..=ours.typmod).contains(&theirs.typmod),
        (Numeric, _) => {
            let (ours, theirs) = (ours.numeric_precision_scale(), theirs.numeric_precision_scale());
            ours.zip(theirs).is_some_and(|(ours, theirs)| ours.0 >= theirs.0 && ours.1 == theirs.1)
        }
        _ => theirs.scalar == ours.scalar && theirs.typmod == ours.typmod,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_narrower_there_is_the_same_here() {
        let numeric =
            |precision, scale| Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(precision, scale));
        let varchar = |length: i32| Type::new(Scalar::Varchar).with_typmod(length + 4);
        let bpchar = |length: i32| Type::new(Scalar::Bpchar).with_typmod(length + 4);
        let timestamp = |digits| Type::new(Scalar::Timestamp).with_typmod(digits);
        let plain = |scalar| Type::new(scalar);
        for (theirs, ours, wanted) in [
            (numeric(5, 1), numeric(5, 1), true),
            (numeric(5, 1), numeric(7, 1), true),
            (numeric(5, 1), plain(Scalar::Numeric), true),
            (numeric(5, 1), numeric(4, 1), false),
            (numeric(5, 1), numeric(7, 2), false),
            (plain(Scalar::Numeric), numeric(5, 1), false),
            (varchar(5), varchar(20), true),
            (varchar(20), varchar(5), false),
            (plain(Scalar::Text), varchar(5), false),
            (bpchar(5), varchar(5), true),
            (bpchar(5), bpchar(5), true),
            (varchar(5), bpchar(5), false),
            (timestamp(3), timestamp(3), true),
            (timestamp(0), timestamp(3), true),
            (timestamp(3), timestamp(0), false),
            (plain(Scalar::Timestamp), timestamp(3), false),
            (plain(Scalar::Timestamp), timestamp(6), true),
        ] {
            assert_eq!(is_within(theirs, ours), wanted, "{} in {}", theirs.display(), ours.display());
        }
    }
}
