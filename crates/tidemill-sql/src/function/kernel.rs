//! How kernels are written: a Rust closure over one row's values becomes an overload over Arrow arrays.
//!
//! The markers ([`Text`], [`Int4`], ...) tie a PostgreSQL type to the Rust type of a value; the parameter list of an
//! overload is the list of its markers. `strict` kernels are null when an argument is.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BinaryBuilder, BooleanArray, BooleanBuilder, FixedSizeBinaryArray,
    FixedSizeBinaryBuilder, LargeBinaryArray, LargeBinaryBuilder, LargeStringArray, LargeStringBuilder,
    PrimitiveArray, PrimitiveBuilder, StringArray, StringBuilder,
};
use arrow::datatypes::{self as dt, DataType, IntervalMonthDayNano};
use datafusion::logical_expr::{ColumnarValue, Volatility};

use super::cast::plain_form;
use super::{Body, Overload, Param, Registry, Returns};
use crate::error::{Result, SqlError};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

/// One argument of a call: a column, or one value that holds for all rows.
pub(crate) struct Input {
    pub array: ArrayRef,
    pub constant: bool,
}

impl Input {
    pub fn new(value: &ColumnarValue) -> datafusion::error::Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { array: plain_form(array)?, constant: false },
            ColumnarValue::Scalar(scalar) => Self { array: plain_form(&scalar.to_array()?)?, constant: true },
        })
    }

    pub fn index(&self, row: usize) -> usize {
        if self.constant { 0 } else { row }
    }
}

/// One call over a batch.
pub(crate) struct Call<'a> {
    pub inputs: &'a [Input],
    pub types: &'a [Type],
    pub rows: usize,
    pub vars: &'a SessionVars,
    pub returns: &'a DataType,
}

/// A PostgreSQL type whose values kernels read and write as Rust values.
pub(crate) trait Sql: 'static {
    const SCALAR: Scalar;
    type Array: Array + 'static;
    type Ref<'a>;
    type Out;
    type Builder;
    fn get(array: &Self::Array, i: usize) -> Result<Self::Ref<'_>>;
    fn builder(rows: usize) -> Self::Builder;
    fn append(builder: &mut Self::Builder, value: Option<Self::Out>) -> Result<()>;
    fn finish(builder: Self::Builder) -> ArrayRef;
}

macro_rules! primitives {
    ($($marker:ident $arrow:ident $native:ty),*) => {$(
        pub(crate) struct $marker;
        impl Sql for $marker {
            const SCALAR: Scalar = Scalar::$marker;
            type Array = PrimitiveArray<dt::$arrow>;
            type Ref<'a> = $native;
            type Out = $native;
            type Builder = PrimitiveBuilder<dt::$arrow>;
            fn get(array: &Self::Array, i: usize) -> Result<$native> {
                Ok(array.value(i))
            }
            fn builder(rows: usize) -> Self::Builder {
                PrimitiveBuilder::with_capacity(rows).with_data_type(Scalar::$marker.arrow())
            }
            fn append(builder: &mut Self::Builder, value: Option<$native>) -> Result<()> {
                builder.append_option(value);
                Ok(())
            }
            fn finish(mut builder: Self::Builder) -> ArrayRef {
                Arc::new(builder.finish())
            }
        }
    )*};
}

primitives!(
    Int2 Int16Type i16,
    Int4 Int32Type i32,
    Int8 Int64Type i64,
    Float4 Float32Type f32,
    Float8 Float64Type f64,
    Date Date32Type i32,
    Time Time64MicrosecondType i64,
    Timestamp TimestampMicrosecondType i64,
    Timestamptz TimestampMicrosecondType i64,
    Interval IntervalMonthDayNanoType IntervalMonthDayNano,
    Oid UInt32Type u32,
    Regclass UInt32Type u32
);

macro_rules! bytes {
    ($($marker:ident $array:ty, $builder:ty, $borrowed:ty, $owned:ty);*) => {$(
        pub(crate) struct $marker;
        impl Sql for $marker {
            const SCALAR: Scalar = Scalar::$marker;
            type Array = $array;
            type Ref<'a> = &'a $borrowed;
            type Out = $owned;
            type Builder = $builder;
            fn get(array: &Self::Array, i: usize) -> Result<&$borrowed> {
                Ok(array.value(i))
            }
            fn builder(rows: usize) -> Self::Builder {
                <$builder>::with_capacity(rows, rows * 8)
            }
            fn append(builder: &mut Self::Builder, value: Option<$owned>) -> Result<()> {
                builder.append_option(value);
                Ok(())
            }
            fn finish(mut builder: Self::Builder) -> ArrayRef {
                Arc::new(builder.finish())
            }
        }
    )*};
}

bytes!(
    Text StringArray, StringBuilder, str, String;
    Json LargeStringArray, LargeStringBuilder, str, String;
    Jsonb LargeStringArray, LargeStringBuilder, str, String;
    Bytea BinaryArray, BinaryBuilder, [u8], Vec<u8>
);

pub(crate) struct Bool;

impl Sql for Bool {
    const SCALAR: Scalar = Scalar::Bool;
    type Array = BooleanArray;
    type Ref<'a> = bool;
    type Out = bool;
    type Builder = BooleanBuilder;
    fn get(array: &BooleanArray, i: usize) -> Result<bool> {
        Ok(array.value(i))
    }
    fn builder(rows: usize) -> BooleanBuilder {
        BooleanBuilder::with_capacity(rows)
    }
    fn append(builder: &mut BooleanBuilder, value: Option<bool>) -> Result<()> {
        builder.append_option(value);
        Ok(())
    }
    fn finish(mut builder: BooleanBuilder) -> ArrayRef {
        Arc::new(builder.finish())
    }
}

pub(crate) struct Numeric;

impl Sql for Numeric {
    const SCALAR: Scalar = Scalar::Numeric;
    type Array = LargeBinaryArray;
    type Ref<'a> = Number;
    type Out = Number;
    type Builder = (LargeBinaryBuilder, Vec<u8>);
    fn get(array: &LargeBinaryArray, i: usize) -> Result<Number> {
        Number::decode(array.value(i))
    }
    fn builder(rows: usize) -> Self::Builder {
        (LargeBinaryBuilder::with_capacity(rows, rows * 8), Vec::new())
    }
    fn append((builder, buffer): &mut Self::Builder, value: Option<Number>) -> Result<()> {
        match value {
            Some(value) => {
                buffer.clear();
                value.encode(buffer);
                builder.append_value(buffer);
            }
            None => builder.append_null(),
        }
        Ok(())
    }
    fn finish((mut builder, _): Self::Builder) -> ArrayRef {
        Arc::new(builder.finish())
    }
}

pub(crate) struct Uuid;

impl Sql for Uuid {
    const SCALAR: Scalar = Scalar::Uuid;
    type Array = FixedSizeBinaryArray;
    type Ref<'a> = &'a [u8];
    type Out = [u8; 16];
    type Builder = FixedSizeBinaryBuilder;
    fn get(array: &FixedSizeBinaryArray, i: usize) -> Result<&[u8]> {
        Ok(array.value(i))
    }
    fn builder(rows: usize) -> FixedSizeBinaryBuilder {
        FixedSizeBinaryBuilder::with_capacity(rows, 16)
    }
    fn append(builder: &mut FixedSizeBinaryBuilder, value: Option<[u8; 16]>) -> Result<()> {
        match value {
            Some(value) => builder.append_value(value).map_err(|e| SqlError::internal(e.to_string()))?,
            None => builder.append_null(),
        }
        Ok(())
    }
    fn finish(mut builder: FixedSizeBinaryBuilder) -> ArrayRef {
        Arc::new(builder.finish())
    }
}

impl<'a> Call<'a> {
    /// The typed column of an argument.
    pub fn column<T: Sql>(&self, i: usize) -> Result<Column<'a, T>> {
        let input = &self.inputs[i];
        let array = input.array.as_any().downcast_ref::<T::Array>().ok_or_else(|| {
            SqlError::internal(format!(
                "argument {i} is {}, not {}",
                input.array.data_type(),
                T::SCALAR.display()
            ))
        })?;
        Ok(Column { array, constant: input.constant })
    }

    /// One value a row, whatever the arguments are.
    pub fn rows<R: Sql>(&self, mut f: impl FnMut(usize) -> Result<Option<R::Out>>) -> Result<ArrayRef> {
        let mut builder = R::builder(self.rows);
        for row in 0..self.rows {
            R::append(&mut builder, f(row)?)?;
        }
        Ok(R::finish(builder))
    }
}

pub(crate) struct Column<'a, T: Sql> {
    array: &'a T::Array,
    constant: bool,
}

impl<'a, T: Sql> Column<'a, T> {
    pub fn get(&self, row: usize) -> Result<Option<T::Ref<'a>>> {
        let i = if self.constant { 0 } else { row };
        if self.array.is_null(i) { Ok(None) } else { T::get(self.array, i).map(Some) }
    }
}

/// `Some` values of a row, or `continue` with null.
macro_rules! row {
    ($column:expr, $row:expr) => {
        match $column.get($row)? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn is<T: Sql>() -> Param {
    Param::Is(Type::new(T::SCALAR))
}

impl Registry {
    fn closure<R: Sql>(
        &mut self,
        name: &'static str,
        params: Vec<Param>,
        kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
    ) {
        self.add(Overload {
            name,
            params,
            variadic: false,
            returns: Returns::Is(Type::new(R::SCALAR)),
            volatility: self.volatility,
            set: false,
            body: Body::Closure(Box::new(kernel)),
        });
    }

    pub(crate) fn nullary<R: Sql>(
        &mut self,
        name: &'static str,
        volatility: Volatility,
        f: impl Fn(&SessionVars) -> Result<R::Out> + Send + Sync + 'static,
    ) {
        let kernel = move |call: &Call| call.rows::<R>(|_| f(call.vars).map(Some));
        self.add(Overload {
            name,
            params: vec![],
            variadic: false,
            returns: Returns::Is(Type::new(R::SCALAR)),
            volatility,
            set: false,
            body: Body::Closure(Box::new(kernel)),
        });
    }

    pub(crate) fn strict1<A: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>) -> Result<R::Out> + Send + Sync + 'static,
    ) {
        self.maybe1::<A, R>(name, move |vars, a| f(vars, a).map(Some));
    }

    pub(crate) fn maybe1<A: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>) -> Result<Option<R::Out>> + Send + Sync + 'static,
    ) {
        self.closure::<R>(name, vec![is::<A>()], move |call| {
            let a = call.column::<A>(0)?;
            call.rows::<R>(|row| f(call.vars, row!(a, row)))
        });
    }

    pub(crate) fn strict2<A: Sql, B: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>, B::Ref<'a>) -> Result<R::Out> + Send + Sync + 'static,
    ) {
        self.maybe2::<A, B, R>(name, move |vars, a, b| f(vars, a, b).map(Some));
    }

    pub(crate) fn maybe2<A: Sql, B: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>, B::Ref<'a>) -> Result<Option<R::Out>> + Send + Sync + 'static,
    ) {
        self.closure::<R>(name, vec![is::<A>(), is::<B>()], move |call| {
            let (a, b) = (call.column::<A>(0)?, call.column::<B>(1)?);
            call.rows::<R>(|row| f(call.vars, row!(a, row), row!(b, row)))
        });
    }

    pub(crate) fn strict3<A: Sql, B: Sql, C: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>, B::Ref<'a>, C::Ref<'a>) -> Result<R::Out>
        + Send
        + Sync
        + 'static,
    ) {
        self.closure::<R>(name, vec![is::<A>(), is::<B>(), is::<C>()], move |call| {
            let (a, b, c) = (call.column::<A>(0)?, call.column::<B>(1)?, call.column::<C>(2)?);
            call.rows::<R>(|row| f(call.vars, row!(a, row), row!(b, row), row!(c, row)).map(Some))
        });
    }

    pub(crate) fn maybe3<A: Sql, B: Sql, C: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>, B::Ref<'a>, C::Ref<'a>) -> Result<Option<R::Out>>
        + Send
        + Sync
        + 'static,
    ) {
        self.closure::<R>(name, vec![is::<A>(), is::<B>(), is::<C>()], move |call| {
            let (a, b, c) = (call.column::<A>(0)?, call.column::<B>(1)?, call.column::<C>(2)?);
            call.rows::<R>(|row| f(call.vars, row!(a, row), row!(b, row), row!(c, row)))
        });
    }

    pub(crate) fn strict4<A: Sql, B: Sql, C: Sql, D: Sql, R: Sql>(
        &mut self,
        name: &'static str,
        f: impl for<'a> Fn(&SessionVars, A::Ref<'a>, B::Ref<'a>, C::Ref<'a>, D::Ref<'a>) -> Result<R::Out>
        + Send
        + Sync
        + 'static,
    ) {
        self.closure::<R>(name, vec![is::<A>(), is::<B>(), is::<C>(), is::<D>()], move |call| {
            let (a, b) = (call.column::<A>(0)?, call.column::<B>(1)?);
            let (c, d) = (call.column::<C>(2)?, call.column::<D>(3)?);
            call.rows::<R>(|row| {
                f(call.vars, row!(a, row), row!(b, row), row!(c, row), row!(d, row)).map(Some)
            })
        });
    }

    /// A function that sees nulls, many arguments, or arrays: its kernel works on the whole call.
    pub(crate) fn kernel(
        &mut self,
        name: &'static str,
        params: &[Param],
        returns: Returns,
        kernel: fn(&Call) -> Result<ArrayRef>,
    ) {
        self.overload(name, params, false, returns, Body::Kernel(kernel));
    }

    /// As `kernel`, for a closure.
    pub(crate) fn boxed(
        &mut self,
        name: &'static str,
        params: &[Param],
        returns: Returns,
        kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
    ) {
        self.overload(name, params, false, returns, Body::Closure(Box::new(kernel)));
    }

    pub(crate) fn variadic(
        &mut self,
        name: &'static str,
        params: &[Param],
        returns: Returns,
        kernel: fn(&Call) -> Result<ArrayRef>,
    ) {
        self.overload(name, params, true, returns, Body::Kernel(kernel));
    }

    pub(crate) fn native(
        &mut self,
        name: &'static str,
        params: &[Param],
        returns: Returns,
        build: fn(Vec<datafusion::logical_expr::Expr>) -> Result<datafusion::logical_expr::Expr>,
    ) {
        self.overload(name, params, false, returns, Body::Native(build));
    }

    fn overload(
        &mut self,
        name: &'static str,
        params: &[Param],
        variadic: bool,
        returns: Returns,
        body: Body,
    ) {
        let params = params.to_vec();
        let volatility = self.volatility;
        self.add(Overload { name, params, variadic, returns, volatility, set: false, body });
    }

    /// A function of several arguments of one type and a last one of another.
    pub(crate) fn custom(
        &mut self,
        name: &'static str,
        first: &[Scalar],
        last: Scalar,
        returns: Scalar,
        kernel: fn(&Call) -> Result<ArrayRef>,
    ) {
        let params: Vec<Param> = first.iter().chain([&last]).map(|s| Param::Is(Type::new(*s))).collect();
        self.kernel(name, &params, Returns::Is(Type::new(returns)), kernel);
    }

    /// A function whose kernel returns a list for each row, which the planner unnests.
    pub(crate) fn set_returning(
        &mut self,
        name: &'static str,
        params: &[Param],
        returns: Returns,
        kernel: fn(&Call) -> Result<ArrayRef>,
    ) {
        let params = params.to_vec();
        let body = Body::Kernel(kernel);
        self.add(Overload {
            name,
            params,
            variadic: false,
            returns,
            volatility: self.volatility,
            set: true,
            body,
        });
    }
}

pub(crate) use row;
