//! Typed expressions from operators and markers: the hook that DataFusion's SQL planner calls for each binary operator.

mod in_list;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, Case, Unnest};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use sqlparser::ast::BinaryOperator;

use super::coerce::{self, Context};
use super::marker;
use super::membership::{self, Quantifier, Rows};
use super::merged_column;
use super::place::{self, Places};
use super::resolve::{self, Arg};
use super::{window_function, within_group};
use crate::error::{Result, SqlError, SqlState};
use crate::function::{self, Param, cast, external, registry};
use crate::types::{Scalar, Type};

/// PostgreSQL's operators and functions for DataFusion's SQL planner.
#[derive(Debug)]
pub struct Lowering;

impl ExprPlanner for Lowering {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> datafusion::error::Result<PlannerResult<RawBinaryExpr>> {
        let name = match &expr.op {
            BinaryOperator::Custom(name) => name.clone(),
            other => other.to_string(),
        };
        let (name, places) = place::split(&name);
        let at = places.at;
        let found = Scope { schema, places }.lower(name, expr.left, expr.right);
        found.map(PlannerResult::Planned).map_err(|e| external(locate(e, at)))
    }
}

/// What names mean where an expression stands.
struct Scope<'a> {
    schema: &'a DFSchema,
    places: Places,
}

/// The position of an error about names and types, unless it has one; an error of a value's calculation has none.
fn locate(error: SqlError, at: usize) -> SqlError {
    // A name that is not found stands elsewhere.
    let about_name = matches!(
        error.state,
        SqlState::UNDEFINED_COLUMN | SqlState::AMBIGUOUS_COLUMN | SqlState::UNDEFINED_TABLE
    );
    let about_types =
        error.state.0.starts_with("42") && !about_name && !error.message.contains("polymorphic type");
    if at > 0 && about_types && error.position.is_none() { error.with_position(at) } else { error }
}

impl Scope<'_> {
    fn lower(&self, name: &str, left: Expr, right: Expr) -> Result<Expr> {
        match name {
            "AND" => self.logical("AND", Operator::And, left, right),
            "OR" => self.logical("OR", Operator::Or, left, right),
            marker::CALL => self.call(&string(&right)?, marker::unpack(left)),
            marker::ARGUMENT => self.argument(&string(&right)?, marker::unpack(left)),
            marker::NAMED => Ok(left.alias(string(&right)?)),
            marker::CAST => {
                let from = self.type_of(&left)?;
                self.cast(0, left, from, decode(&right)?, Context::Explicit)
            }
            // As a cast of an unknown, but the type is known from now on.
            marker::PARAMETER => coerce::cast_expr(left, None, decode(&right)?, Context::Explicit),
            marker::LITERAL => self.cast(0, left, None, decode(&right)?, Context::Explicit),
            marker::CASE => self.case(marker::unpack(left), !string(&right)?.is_empty()),
            marker::IN => self.in_list(left, marker::unpack(right), false),
            marker::NOT_IN => self.in_list(left, marker::unpack(right), true),
            marker::ARRAY => self.array(marker::unpack(left)),
            marker::PREFIX => self.operator(&string(&right)?, vec![left]),
            marker::ASSIGN => self.assign(marker::unpack(left), &string(&right)?),
            marker::UNIFY => self.unify(marker::unpack(left), &string(&right)?),
            marker::BOOLEAN => self.boolean(0, left, &string(&right)?),
            marker::MERGED => Ok(merged_column::found(left, &string(&right)?, self.schema)),
            marker::DISTINCT => self.distinct(left, Operator::IsDistinctFrom, right),
            marker::NOT_DISTINCT => self.distinct(left, Operator::IsNotDistinctFrom, right),
            "!=" => self.operator("<>", vec![left, right]),
            name => match (name.strip_prefix(marker::ANY), name.strip_prefix(marker::ALL)) {
                (Some(op), _) => self.quantified(op, false, left, right),
                (_, Some(op)) => self.quantified(op, true, left, right),
                _ => match membership::quantifier(name) {
                    Some((quantifier, op)) => self.of_rows(quantifier, op, marker::unpack(left), right),
                    None => self.operator(name, vec![left, right]),
                },
            },
        }
    }

    fn type_of(&self, expr: &Expr) -> Result<Arg> {
        coerce::type_of(expr, self.schema)
    }

    fn types_of(&self, exprs: &[Expr]) -> Result<Vec<Arg>> {
        exprs.iter().map(|e| self.type_of(e)).collect()
    }

    fn operator(&self, name: &str, operands: Vec<Expr>) -> Result<Expr> {
        let types = self.types_of(&operands)?;
        let name = if name == "!=" { "<>" } else { name };
        let (overload, targets) = resolve::operator(name, registry().operator(name), &types)?;
        function::call(overload, self.cast_all(operands, &types, &targets)?)
    }

    /// Casts an operand; an error about a literal that is read, or about its type, is at the literal.
    fn cast(&self, operand: usize, expr: Expr, from: Arg, to: Type, context: Context) -> Result<Expr> {
        let place = match from {
            None => self.places.operand(operand),
            Some(_) => 0,
        };
        coerce::cast_expr(expr, from, to, context).map_err(|e| match (place, e.position) {
            (1.., None) => e.with_position(place),
            _ => e,
        })
    }

    fn cast_all(&self, exprs: Vec<Expr>, from: &[Arg], to: &[Type]) -> Result<Vec<Expr>> {
        exprs
            .into_iter()
            .zip(from.iter().zip(to))
            .enumerate()
            .map(|(i, (expr, (from, to)))| self.cast(i, expr, *from, *to, Context::Implicit))
            .collect()
    }

    /// The common type of operands, which are those of these numbers.
    fn common(&self, what: &str, types: &[(usize, Arg)]) -> Result<Type> {
        coerce::common_or(what, types.iter().map(|(_, ty)| *ty))
            .map_err(|(i, error)| locate(error, self.places.operand(types[i].0)))
    }

    fn call(&self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let types = self.types_of(&args)?;
        match name {
            "coalesce" | "greatest" | "least" if !args.is_empty() => {
                return self.alternatives(name, args, &types);
            }
            "nullif" if args.len() == 2 => return self.nullif(args),
            "pg_typeof" if matches!(&args[..], [Expr::Literal(..)]) => {
                return function::system::type_name(&resolve::names(&types)[0]);
            }
            _ => {}
        }
        // `text(x)`, `int4(x)`: a type's name is a cast when nothing else has that name.
        let overloads = registry().function(name);
        if overloads.is_empty()
            && let (Some(scalar), [_]) = (Scalar::from_name(name), &args[..])
        {
            let (Some(arg), from) = (args.into_iter().next(), types[0]) else {
                return Err(SqlError::internal("a call without its argument"));
            };
            return self.cast(0, arg, from, Type::new(scalar), Context::Explicit);
        }
        let (overload, targets) = resolve::function(name, overloads, &types)?;
        let args = args
            .into_iter()
            .zip(types.iter().zip(&targets))
            .enumerate()
            .map(|(i, (arg, (from, to)))| match overload.param(i) {
                // Any type as it is; only `unknown` becomes text.
                Param::Any if from.is_some() => Ok(arg),
                _ => self.cast(i, arg, *from, *to, Context::Implicit),
            })
            .collect::<Result<Vec<_>>>()?;
        let call = function::call(overload, args)?;
        if !overload.set {
            return Ok(call);
        }
        let element = overload.result(&targets).field(name);
        let unnested = Expr::Unnest(Unnest::new(call));
        Ok(match element.metadata().is_empty() {
            true => unnested,
            // The items of a list do not tell their type.
            false => cast::relabel(unnested, overload.result(&targets)).alias(name),
        })
    }

    /// One of the arguments of a window function, by number and name; of an aggregate with WITHIN GROUP also by the number
    /// of its direct arguments.
    fn argument(&self, which: &str, args: Vec<Expr>) -> Result<Expr> {
        let types = self.types_of(&args)?;
        let missing = || SqlError::internal("an argument without its number");
        let mut parts = which.split(' ');
        let number: usize = parts.next().and_then(|number| number.parse().ok()).ok_or_else(missing)?;
        let name = parts.next().ok_or_else(missing)?;
        let args = match parts.next().map(str::parse) {
            None => {
                let (_, targets) = resolve::function(name, &window_function::signatures(name), &types)?;
                let args = self.cast_all(args, &types, &targets)?;
                window_function::arguments(name, args, self.schema)?
            }
            Some(direct) => self.within_group(name, args, &types, direct.map_err(|_| missing())?)?,
        };
        args.into_iter().nth(number).ok_or_else(missing)
    }

    fn within_group(&self, name: &str, args: Vec<Expr>, types: &[Arg], direct: usize) -> Result<Vec<Expr>> {
        let signatures = within_group::signatures(name);
        let targets = if signatures.is_empty() {
            within_group::check_hypothetical(name, types, direct)?;
            let pair =
                |i: usize| self.common("WITHIN GROUP", &[(direct + i, types[direct + i]), (i, types[i])]);
            let common = (0..direct).map(pair).collect::<Result<Vec<_>>>()?;
            common.repeat(2)
        } else {
            resolve::function(name, &signatures, types)?.1
        };
        if let Some(i) = (direct..targets.len()).find(|i| targets[*i].scalar == Scalar::Json) {
            let message = "could not identify an ordering operator for type json";
            let error = SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
                .with_hint("Use an explicit ordering operator or modify the query.");
            return Err(locate(error, self.places.operand(i)));
        }
        self.cast_all(args, types, &targets)
    }

    fn alternatives(&self, name: &str, args: Vec<Expr>, types: &[Arg]) -> Result<Expr> {
        let shown = name.to_uppercase();
        let target = self.common(&shown, &numbered(types))?;
        let args = self.cast_all(args, types, &vec![target; types.len()])?;
        match name {
            "coalesce" => labelled(datafusion::functions::core::expr_fn::coalesce(args), target),
            _ if target.array => Err(SqlError::unsupported(format!("{shown} of arrays is not supported"))),
            _ => {
                let (overload, _) = resolve::function(name, registry().function(name), &[Some(target)])?;
                function::call(overload, args)
            }
        }
    }

    /// The first argument as the type that `=` compares it as.
    fn nullif(&self, args: Vec<Expr>) -> Result<Expr> {
        let types = self.types_of(&args)?;
        let (_, compared) = resolve::operator("=", registry().operator("="), &types)?;
        let equal = self.operator("=", args.clone())?;
        let (Some(first), Some(compared)) = (args.into_iter().next(), compared.into_iter().next()) else {
            return Err(SqlError::internal("nullif without arguments"));
        };
        let target = match types[0] {
            Some(from) if coerce::has_own_equality(from, types[1]) => from,
            _ => compared,
        };
        let first = self.cast(0, first, types[0], target, Context::Implicit)?;
        let arm = (Box::new(equal), Box::new(cast_null(target)?));
        labelled(Expr::Case(Case::new(None, vec![arm], Some(Box::new(first)))), target)
    }

    fn case(&self, mut parts: Vec<Expr>, has_else: bool) -> Result<Expr> {
        let otherwise = if has_else { parts.pop() } else { None };
        let arms = parts.len() / 2;
        let mut conditions = vec![];
        let mut results = vec![];
        for (i, part) in parts.into_iter().enumerate() {
            if i % 2 == 0 { conditions.push(self.boolean(i, part, "CASE/WHEN")?) } else { results.push(part) }
        }
        results.extend(otherwise);
        let types = self.types_of(&results)?;
        let place = |result: usize| if result < arms { 2 * result + 1 } else { 2 * arms };
        let mut numbered: Vec<_> = types.iter().enumerate().map(|(i, ty)| (place(i), *ty)).collect();
        // ELSE decides first, as in PostgreSQL.
        if has_else {
            numbered.rotate_right(1);
        }
        let target = self.common("CASE", &numbered)?;
        // The null of a missing ELSE has no modifier.
        let target = if has_else { target } else { target.with_typmod(-1) };
        let results = results.into_iter().zip(&types).enumerate();
        let mut results = results
            .map(|(i, (expr, from))| self.cast(place(i), expr, *from, target, Context::Implicit))
            .collect::<Result<Vec<_>>>()?;
        let otherwise = if has_else { results.pop() } else { Some(cast_null(target)?) };
        let arms = conditions.into_iter().map(Box::new).zip(results.into_iter().map(Box::new)).collect();
        labelled(Expr::Case(Case::new(None, arms, otherwise.map(Box::new))), target)
    }

    fn array(&self, items: Vec<Expr>) -> Result<Expr> {
        let types = self.types_of(&items)?;
        let element = self.common("ARRAY", &numbered(&types))?;
        if element.array {
            return Err(SqlError::unsupported("arrays of more than one dimension are not supported"));
        }
        let items = self.cast_all(items, &types, &vec![element; types.len()])?;
        if items.is_empty() {
            let name = "array of nothing";
            let (overload, _) = resolve::function(name, registry().function(name), &[])?;
            return function::call(overload, items);
        }
        let (overload, _) = resolve::function("array of", registry().function("array of"), &[Some(element)])?;
        function::call(overload, items)
    }

    /// The first expression in the type that all have in common.
    /// The first of the expressions as the common type of the others, which are examples of all that is in its column.
    fn unify(&self, exprs: Vec<Expr>, what: &str) -> Result<Expr> {
        let types = self.types_of(&exprs)?;
        let target = self.common(what, numbered(&types).get(1..).unwrap_or_default())?;
        let first = exprs.into_iter().next().ok_or_else(|| SqlError::internal("nothing to unify"))?;
        let value = self.cast(0, first, types[0], target, Context::Implicit)?;
        self.labelled(value, target)
    }

    /// A value that becomes one of a column, which need not be of one type with those in other rows.
    fn assign(&self, exprs: Vec<Expr>, target: &str) -> Result<Expr> {
        let types = self.types_of(&exprs)?;
        let missing = || SqlError::internal(format!("cannot assign to {target}"));
        let value = exprs.into_iter().next().ok_or_else(missing)?;
        let examples: Vec<Type> = types[1..].iter().copied().flatten().collect();
        if let [first, others @ ..] = &examples[..]
            && others.iter().all(|ty| ty == first)
        {
            // They are assigned after all others, where the row of an error is known.
            return self.labelled(self.cast(0, value, types[0], *first, Context::Implicit)?, *first);
        }
        let (ty, column) = target.split_once(' ').ok_or_else(missing)?;
        let to = marker::decode(ty).ok_or_else(missing)?;
        let (value, from) = match types[0] {
            Some(from) => {
                let position = Some(self.places.operand(0)).filter(|at| *at > 0);
                coerce::check_assignable(column, to, from, position)?;
                (value, from)
            }
            // A parameter is of the column's type without its length, so that what is too long is an error.
            None => {
                let read = to.with_typmod(-1);
                (self.cast(0, value, None, read, Context::Assignment)?, read)
            }
        };
        self.labelled(self.cast(0, value, Some(from), to, Context::Assignment)?, to)
    }

    fn labelled(&self, value: Expr, target: Type) -> Result<Expr> {
        // DataFusion compares what the fields of all rows say, and a text literal says that its type is known.
        let (_, field) = value.to_field(self.schema).map_err(super::plan_error)?;
        Ok(if *field.metadata() == *target.field("").metadata() {
            value
        } else {
            cast::relabel(value, target)
        })
    }

    fn logical(&self, name: &str, op: Operator, left: Expr, right: Expr) -> Result<Expr> {
        let (left, right) = (self.boolean(0, left, name)?, self.boolean(1, right, name)?);
        Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
    }

    fn boolean(&self, operand: usize, expr: Expr, place: &str) -> Result<Expr> {
        let boolean = Type::new(Scalar::Bool);
        match self.type_of(&expr)? {
            Some(ty) if ty == boolean => Ok(expr),
            Some(ty) => {
                let shown = ty.with_typmod(-1).display();
                let message = format!("argument of {place} must be type boolean, not type {shown}");
                let error = SqlError::new(SqlState::DATATYPE_MISMATCH, message);
                Err(locate(error, self.places.operand(operand)))
            }
            None => self.cast(operand, expr, None, boolean, Context::Implicit),
        }
    }

    /// DataFusion has the operator; what `=` compares for these types is what is to be distinct.
    fn distinct(&self, left: Expr, op: Operator, right: Expr) -> Result<Expr> {
        match self.operator("=", vec![left, right])? {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
                Ok(Expr::BinaryExpr(BinaryExpr::new(left, op, right)))
            }
            _ => Err(SqlError::unsupported("IS DISTINCT FROM is not supported for this type")),
        }
    }

    /// `x op ANY (SELECT y …)`: each side is cast to what the operator takes.
    fn of_rows(&self, quantifier: Quantifier, op: &str, left: Vec<Expr>, right: Expr) -> Result<Expr> {
        let rows = Rows::of(right)?;
        let mut schema = self.schema.clone();
        schema.merge(rows.schema());
        let scope = Scope { schema: &schema, places: self.places.clone() };
        let items = rows.columns();
        if left.len() != items.len() {
            let few = if items.len() < left.len() { "few" } else { "many" };
            return Err(SqlError::syntax(format!("subquery has too {few} columns")));
        }
        let pairs = left.into_iter().zip(items);
        let compared = pairs.map(|(x, y)| scope.operator(op, vec![x, y])).collect::<Result<Vec<_>>>()?;
        rows.compared(quantifier, op, compared)
    }

    /// `x op ANY (array)`: true if some comparison is, else null if one is null.
    fn quantified(&self, op: &str, all: bool, left: Expr, right: Expr) -> Result<Expr> {
        if op.contains('~') {
            let quantifier = if all { "ALL" } else { "ANY" };
            let message =
                format!("operator {op} {quantifier} is not supported for an array that is not written out");
            let error = SqlError::unsupported(message).with_hint("Write the patterns as ARRAY[…].");
            return Err(if self.places.at > 0 { error.with_position(self.places.at) } else { error });
        }
        let (mut left_type, mut right_type) = (self.type_of(&left)?, self.type_of(&right)?);
        let item = |ty: Type| Type { array: false, ..ty };
        let element = match (left_type, right_type) {
            (_, Some(ty)) if !ty.array => {
                let message = "op ANY/ALL (array) requires array on right side";
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            (left, right) => {
                let types = [left, right.map(item)];
                // Where two types have nothing in common there may be no such operator.
                coerce::common("ANY", types)
                    .or_else(|error| resolve::operator(op, registry().operator(op), &types).and(Err(error)))?
            }
        };
        let is_text = [left_type, right_type].map(|ty| ty.is_some_and(|ty| ty.scalar == Scalar::Text));
        let array = Type { array: true, ..element };
        let mut left = self.cast(0, left, left_type.take(), element, Context::Implicit)?;
        let mut right = self.cast(1, right, right_type.take(), array, Context::Implicit)?;
        let mut element = element;
        if element.scalar == Scalar::Bpchar {
            element = Type::new(Scalar::Text);
            if !is_text[0] {
                left = without_blanks(left)?;
            }
            if !is_text[1] {
                right = cast::expr(right, array, Type::array(Scalar::Text), false)?;
            }
        }
        let array = Type { array: true, ..element };
        let name = function::listed::function(op, all, element);
        let types = [Some(element), Some(array), Some(Type::new(Scalar::Text))];
        let (overload, _) = resolve::function(name, registry().function(name), &types)?;
        let text = Expr::Literal(ScalarValue::Utf8(Some(op.to_string())), None);
        function::call(overload, vec![left, right, text])
    }
}

/// A `character` as what its comparisons compare.
fn without_blanks(expr: Expr) -> Result<Expr> {
    cast::expr(expr, Type::new(Scalar::Bpchar), Type::new(Scalar::Text), false)
}

fn numbered(types: &[Arg]) -> Vec<(usize, Arg)> {
    types.iter().copied().enumerate().collect()
}

/// DataFusion's own expressions forget which PostgreSQL type a number is, and its modifier; where that decides how it is
/// shown or described, it is said again.
fn labelled(expr: Expr, ty: Type) -> Result<Expr> {
    if matches!(ty.scalar, Scalar::Jsonb | Scalar::Bpchar | Scalar::Varchar) || ty.typmod >= 0 {
        let (name, field) = (expr.schema_name().to_string(), ty.field(""));
        return Ok(expr.alias_with_metadata(name, Some(FieldMetadata::new_from_field(&field))));
    }
    if !ty.scalar.is_object_name() {
        return Ok(expr);
    }
    let plain = Type { array: ty.array, ..Type::new(Scalar::Oid) };
    coerce::cast_expr(expr, Some(plain), ty, Context::Implicit)
}

fn cast_null(ty: Type) -> Result<Expr> {
    coerce::cast_expr(Expr::Literal(ScalarValue::Null, None), None, ty, Context::Implicit)
}

fn string(expr: &Expr) -> Result<String> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Ok(text.clone()),
        other => Err(SqlError::internal(format!("a marker without its text: {other}"))),
    }
}

fn decode(expr: &Expr) -> Result<Type> {
    let text = string(expr)?;
    marker::decode(&text).ok_or_else(|| SqlError::internal(format!("a marker without its type: {text}")))
}
