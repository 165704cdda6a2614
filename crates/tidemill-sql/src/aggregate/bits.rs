//! `bool_and`, `bool_or`, `every`, `bit_and`, `bit_or`, `bit_xor`.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::{BitAnd, BitOr, BitXor};
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};

use super::Resolved;
use super::fixed::{Fixed, Moment, column};
use crate::error::{Result, SqlError};
use crate::types::{Scalar, Type};

pub(super) fn resolve(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar, array: false, .. }] = types else { return None };
    match (name, scalar) {
        ("bool_and" | "every", Scalar::Bool) => of_booleans::<And>(),
        ("bool_or", Scalar::Bool) => of_booleans::<Or>(),
        (_, Scalar::Int2) => of_integers::<Int16Type>(name),
        (_, Scalar::Int4) => of_integers::<Int32Type>(name),
        (_, Scalar::Int8) => of_integers::<Int64Type>(name),
        _ => None,
    }
}

fn of_booleans<O: Operation>() -> Option<Resolved> {
    Resolved::new(&[DataType::Boolean], Type::new(Scalar::Bool), Fixed::new(1, Booleans::<O>::finish))
}

fn of_integers<T: ArrowPrimitiveType<Native: Bits>>(name: &str) -> Option<Resolved> {
    let returns = Type::from_arrow(&T::DATA_TYPE).ok()?;
    let arguments = [T::DATA_TYPE];
    match name {
        "bit_and" => Resolved::new(&arguments, returns, Fixed::new(1, Integers::<T, And>::finish)),
        "bit_or" => Resolved::new(&arguments, returns, Fixed::new(1, Integers::<T, Or>::finish)),
        "bit_xor" => Resolved::new(&arguments, returns, Fixed::new(1, Integers::<T, Xor>::finish)),
        _ => None,
    }
}

trait Bits: BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Copy {}

impl<T: BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T> + Copy> Bits for T {}

/// How two values become one.
trait Operation: Debug + Send + Sync + 'static {
    fn apply<T: Bits>(a: T, b: T) -> T;
}

#[derive(Debug)]
struct And;
#[derive(Debug)]
struct Or;
#[derive(Debug)]
struct Xor;

impl Operation for And {
    fn apply<T: Bits>(a: T, b: T) -> T {
        a & b
    }
}

impl Operation for Or {
    fn apply<T: Bits>(a: T, b: T) -> T {
        a | b
    }
}

impl Operation for Xor {
    fn apply<T: Bits>(a: T, b: T) -> T {
        a ^ b
    }
}

/// `None`: no value yet.
#[derive(Debug)]
struct Booleans<O>(Option<bool>, PhantomData<O>);

impl<O> Clone for Booleans<O> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<O> Default for Booleans<O> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<O: Operation> Booleans<O> {
    fn finish(states: &[Self]) -> Result<ArrayRef> {
        Ok(Arc::new(states.iter().map(|s| s.0).collect::<BooleanArray>()))
    }
}

impl<O: Operation> Moment for Booleans<O> {
    type Value<'a> = bool;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = bool> + '_> {
        Ok(column::<BooleanArray>(args, 0)?.values().iter())
    }

    fn add(&mut self, value: bool) {
        self.0 = Some(self.0.map_or(value, |so_far| O::apply(so_far, value)));
    }

    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|value| self.add(value));
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Boolean]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![Arc::new(states.iter().map(|s| s.0).collect::<BooleanArray>())]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        Ok(column::<BooleanArray>(columns, 0)?.iter().map(|value| Self(value, PhantomData)).collect())
    }
}

struct Integers<T: ArrowPrimitiveType, O>(Option<T::Native>, PhantomData<O>);

impl<T: ArrowPrimitiveType, O> Debug for Integers<T, O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Integers({:?})", self.0)
    }
}

impl<T: ArrowPrimitiveType, O> Clone for Integers<T, O> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<T: ArrowPrimitiveType, O> Default for Integers<T, O> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<T: ArrowPrimitiveType<Native: Bits>, O: Operation> Integers<T, O> {
    fn array(states: &[Self]) -> ArrayRef {
        Arc::new(states.iter().map(|s| s.0).collect::<PrimitiveArray<T>>())
    }

    fn finish(states: &[Self]) -> Result<ArrayRef> {
        Ok(Self::array(states))
    }
}

impl<T: ArrowPrimitiveType<Native: Bits>, O: Operation> Moment for Integers<T, O> {
    type Value<'a> = T::Native;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = T::Native> + '_> {
        let array = args.first().and_then(|a| a.as_primitive_opt::<T>());
        let array = array.ok_or_else(|| SqlError::internal("a bit aggregate of something else"))?;
        Ok(array.values().iter().copied())
    }

    fn add(&mut self, value: T::Native) {
        self.0 = Some(self.0.map_or(value, |so_far| O::apply(so_far, value)));
    }

    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|value| self.add(value));
    }

    fn columns() -> Vec<DataType> {
        vec![T::DATA_TYPE]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![Self::array(states)]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let array = column::<PrimitiveArray<T>>(columns, 0)?;
        Ok(array.iter().map(|value| Self(value, PhantomData)).collect())
    }
}
