//! Which overload a call means: PostgreSQL's rules for operators and functions (its documentation, chapter 10).

use super::coerce::{self, Context};
use crate::error::{Result, SqlError, SqlState};
use crate::function::{Overload, Param};
use crate::types::{Scalar, Type};

/// The type of an argument; `None` is PostgreSQL's `unknown`: a bare string literal, NULL or an untyped parameter.
pub type Arg = Option<Type>;

/// The overload for these arguments and the type each argument is to be cast to.
pub fn function(
    name: &str,
    overloads: &[&'static Overload],
    args: &[Arg],
) -> Result<(&'static Overload, Vec<Type>)> {
    let found = match select(overloads, args) {
        Selection::One(overload) => overload,
        Selection::None => {
            return Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {name}({}) does not exist", names(args).join(", ")),
            )
            .with_hint(
                "No function matches the given name and argument types. You might need to add explicit type casts.",
            ));
        }
        Selection::Ambiguous => {
            return Err(SqlError::new(
                SqlState::AMBIGUOUS_FUNCTION,
                format!("function {name}({}) is not unique", names(args).join(", ")),
            )
            .with_hint(
                "Could not choose a best candidate function. You might need to add explicit type casts.",
            ));
        }
    };
    let array = |i: usize| found.param(i) == Param::AnyArray;
    if (0..args.len()).any(array)
        && (0..args.len()).all(|i| args[i].is_none() || matches!(found.param(i), Param::Is(_)))
    {
        let message = "could not determine polymorphic type because input has type unknown";
        return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
    }
    Ok((found, targets(found, args)?))
}

/// As [`function`], for an operator with one or two operands.
pub fn operator(
    name: &str,
    overloads: &[&'static Overload],
    args: &[Arg],
) -> Result<(&'static Overload, Vec<Type>)> {
    let mut found = Selection::None;
    // An unknown operand is first taken to have the other operand's type.
    if let [left, right] = args
        && let Some(known) = left.or(*right)
    {
        let same = [Some(known), Some(known)];
        let exact = overloads.iter().find(|o| o.takes(2) && exact_matches(o, &same) == 2);
        if let Some(exact) = exact.filter(|_| left.is_none() || right.is_none()) {
            found = Selection::One(exact);
        }
    }
    if let Some(of_character) = overloads.iter().find(|o| is_of_character(o, args)) {
        found = Selection::One(of_character);
    }
    if matches!(found, Selection::None) {
        found = select(overloads, args);
    }
    let shown = || match &names(args)[..] {
        [operand] => format!("{name} {operand}"),
        [left, right] => format!("{left} {name} {right}"),
        _ => name.to_string(),
    };
    match found {
        Selection::One(overload) => Ok((overload, targets(overload, args)?)),
        Selection::None => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("operator does not exist: {}", shown()),
        )
        .with_hint(match args.len() {
            1 => "No operator matches the given name and argument type. You might need to add an explicit type cast.",
            _ => "No operator matches the given name and argument types. You might need to add explicit type casts.",
        })),
        Selection::Ambiguous => {
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {}", shown()))
                .with_hint("Could not choose a best candidate operator. You might need to add explicit type casts."))
        }
    }
}

/// As messages name argument types.
pub fn names(args: &[Arg]) -> Vec<String> {
    args.iter()
        .map(|arg| match arg {
            Some(ty) => ty.with_typmod(-1).display(),
            None => "unknown".to_string(),
        })
        .collect()
}

/// Whether an operator is `character`'s own and means these operands; for all others, a `character` is as good as a text.
fn is_of_character(overload: &Overload, args: &[Arg]) -> bool {
    const CHARACTER: Param = Param::Is(Type::new(Scalar::Bpchar));
    let is_character = |arg: &Arg| arg.is_some_and(|ty| ty.scalar == Scalar::Bpchar && !ty.array);
    let [left, right] = args else { return false };
    if overload.param(0) != CHARACTER {
        return false;
    }
    if overload.param(1) != CHARACTER {
        return is_character(left) && right.is_none_or(|ty| coerce::is_string(ty.scalar) && !ty.array);
    }
    // Of `character` and `text` it is text's own that is meant.
    let fits =
        |arg: &Arg| arg.is_none_or(|ty| matches!(ty.scalar, Scalar::Bpchar | Scalar::Varchar) && !ty.array);
    (is_character(left) || is_character(right)) && fits(left) && fits(right)
}

enum Selection {
    One(&'static Overload),
    None,
    Ambiguous,
}

fn select(overloads: &[&'static Overload], args: &[Arg]) -> Selection {
    let fitting: Vec<_> = overloads.iter().copied().filter(|o| o.takes(args.len())).collect();
    if let Some(exact) = fitting.iter().find(|o| exact_matches(o, args) == args.len()) {
        return Selection::One(exact);
    }
    let coercible: Vec<_> = fitting.into_iter().filter(|o| accepts(o, args)).collect();
    match coercible[..] {
        [] => return Selection::None,
        [only] => return Selection::One(only),
        _ => {}
    }
    // Each rule leaves the candidates that are best by it.
    let remaining = best(coercible, |o| exact_matches(o, args));
    if let [only] = remaining[..] {
        return Selection::One(only);
    }
    let remaining = best(remaining, |o| exact_or_preferred(o, args));
    if let [only] = remaining[..] {
        return Selection::One(only);
    }
    by_unknown_operands(remaining, args)
}

/// How often a parameter has just the type of its argument.
fn exact_matches(overload: &Overload, args: &[Arg]) -> usize {
    let exact = |(i, arg): (usize, &Arg)| match (overload.param(i), arg) {
        (Param::Is(param), Some(arg)) => coerce::same(*arg, param),
        _ => false,
    };
    args.iter().enumerate().filter(|(i, arg)| exact((*i, arg))).count()
}

fn exact_or_preferred(overload: &Overload, args: &[Arg]) -> usize {
    let good = |i: usize, arg: &Arg| match (overload.param(i), arg) {
        (Param::Is(param), Some(arg)) => {
            coerce::same(*arg, param)
                || (coerce::category(*arg) == coerce::category(param) && coerce::preferred(param))
        }
        _ => false,
    };
    args.iter().enumerate().filter(|(i, arg)| good(*i, arg)).count()
}

fn best(candidates: Vec<&'static Overload>, score: impl Fn(&Overload) -> usize) -> Vec<&'static Overload> {
    let highest = candidates.iter().map(|o| score(o)).max().unwrap_or(0);
    candidates.into_iter().filter(|o| score(o) == highest).collect()
}

fn accepts(overload: &Overload, args: &[Arg]) -> bool {
    args.iter().enumerate().all(|(i, arg)| match (overload.param(i), arg) {
        (_, None) => true,
        (Param::Is(param), Some(arg)) => coerce::castable(*arg, param, Context::Implicit),
        (Param::AnyArray, Some(arg)) => arg.array,
        // `text || any` is not for arrays, as PostgreSQL's anynonarray says.
        (Param::Any, Some(arg)) => !(arg.array && overload.name == "||"),
        (Param::AnyElement, Some(_)) => true,
    }) && targets(overload, args).is_ok()
}

/// The last rules: what the candidates say about each unknown argument, strings first; then the guess that an unknown
/// argument has the type that all known arguments share.
fn by_unknown_operands(mut remaining: Vec<&'static Overload>, args: &[Arg]) -> Selection {
    let unknowns: Vec<usize> = (0..args.len()).filter(|i| args[*i].is_none()).collect();
    let categories: Option<Vec<char>> = unknowns.iter().map(|i| category_of(&remaining, *i)).collect();
    // Only if each unknown argument has a category.
    if let Some(categories) = categories {
        let slots: Vec<(usize, char)> = unknowns.into_iter().zip(categories).collect();
        let fits = |o: &&'static Overload, (i, category): &(usize, char)| matches!(o.param(*i), Param::Is(ty) if coerce::category(ty) == *category);
        let preferred = |o: &Overload, i: usize| matches!(o.param(i), Param::Is(ty) if coerce::preferred(ty));
        let wanted: Vec<(usize, bool)> = slots
            .iter()
            .map(|slot| (slot.0, remaining.iter().any(|o| fits(o, slot) && preferred(o, slot.0))))
            .collect();
        let kept: Vec<_> = remaining
            .iter()
            .copied()
            .filter(|o| slots.iter().all(|slot| fits(o, slot)))
            .filter(|o| wanted.iter().all(|(i, prefers)| !prefers || preferred(o, *i)))
            .collect();
        if !kept.is_empty() {
            remaining = kept;
        }
    }
    if let [only] = remaining[..] {
        return Selection::One(only);
    }
    let mut known = args.iter().flatten();
    if let Some(first) = known.next()
        && known.all(|ty| coerce::same(*ty, *first))
    {
        let guess = vec![Some(*first); args.len()];
        remaining.retain(|o| accepts(o, &guess));
        if let [only] = remaining[..] {
            return Selection::One(only);
        }
    }
    Selection::Ambiguous
}

/// The category that the candidates have in common at an argument; strings win.
fn category_of(candidates: &[&'static Overload], i: usize) -> Option<char> {
    let types =
        candidates.iter().filter_map(|o| if let Param::Is(ty) = o.param(i) { Some(ty) } else { None });
    let categories: Vec<char> = types.map(coerce::category).collect();
    match categories.first() {
        _ if categories.contains(&'S') => Some('S'),
        Some(first) if categories.iter().all(|category| category == first) => Some(*first),
        _ => None,
    }
}

/// What each argument is cast to: the parameter types, with the polymorphic ones filled in.
fn targets(overload: &Overload, args: &[Arg]) -> Result<Vec<Type>> {
    let of_elements = args.iter().enumerate().filter_map(|(i, arg)| match overload.param(i) {
        Param::AnyElement => Some(*arg),
        Param::AnyArray => arg.map(|ty| Some(Type { array: false, ..ty })),
        _ => None,
    });
    let element = coerce::common(overload.name, of_elements)?;
    Ok(args
        .iter()
        .enumerate()
        .map(|(i, arg)| match overload.param(i) {
            Param::Is(ty) => ty,
            Param::AnyElement => element,
            Param::AnyArray => Type { array: true, ..element },
            Param::Any => arg.unwrap_or(Type::new(Scalar::Text)),
        })
        .collect())
}
