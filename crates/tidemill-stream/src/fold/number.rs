//! The groups of one key column of numbers, dates or times.
//!
//! A slot of the table is a key and its group, so a row costs one access to memory; DataFusion's table holds places of
//! keys, which costs a second one. Of a table that is larger than the caches, the slots of many rows are fetched before
//! the first of them is looked at: it is waited for once rather than row by row.

use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_plan::aggregates::group_values::GroupValues;
use hashbrown::DefaultHashBuilder;

/// Rows that are looked up together: their slots fit into the first cache beside their keys and groups.
const CHUNK_ROWS: usize = 256;
/// The slots of a table of this size are in a cache that is near.
const CACHED_BYTES: usize = 256 << 10;
const SLOTS_MIN: usize = 16;
/// The group of a slot without key, and the first number that no group has.
const NONE: u32 = u32::MAX;

pub(super) struct Numbers<T: ArrowPrimitiveType> {
    data_type: DataType,
    /// Open addressing with linear probing; a power of two, never full.
    slots: Vec<Slot<T::Native>>,
    /// By group. That of the null group means nothing.
    keys: Vec<T::Native>,
    null_group: Option<usize>,
    hasher: DefaultHashBuilder,
}

#[derive(Clone, Copy)]
struct Slot<K> {
    key: K,
    group: u32,
}

impl<T: ArrowPrimitiveType<Native: Hash + Eq>> Numbers<T> {
    pub fn new(data_type: DataType) -> Self {
        let hasher = DefaultHashBuilder::default();
        Self { data_type, slots: Vec::new(), keys: Vec::new(), null_group: None, hasher }
    }

    const EMPTY: Slot<T::Native> = Slot { key: T::Native::ZERO, group: NONE };

    /// Where a key is, or what comes after it is. The table must not be empty.
    fn place(&self, key: T::Native) -> usize {
        self.hasher.hash_one(key) as usize & (self.slots.len() - 1)
    }

    /// Of a small table three quarters are empty at least, so that hardly a key is looked for in a second slot, which is
    /// a branch that the processor can't foresee; of a large one a quarter.
    fn slots_for(groups: usize) -> usize {
        let roomy = (4 * groups).next_power_of_two().max(SLOTS_MIN);
        if roomy * size_of::<Slot<T::Native>>() <= CACHED_BYTES {
            roomy
        } else {
            (groups + groups / 3 + 1).next_power_of_two()
        }
    }

    /// Makes room for so many further groups.
    fn reserve(&mut self, additional: usize) -> Result<()> {
        let groups = self.keys.len() + additional;
        if groups >= NONE as usize {
            return exec_err!("too many groups");
        }
        let slots = Self::slots_for(groups);
        if slots > self.slots.len() {
            self.rebuild(slots);
        }
        Ok(())
    }

    fn rebuild(&mut self, slots: usize) {
        self.slots.clear();
        self.slots.shrink_to(slots);
        self.slots.resize(slots, Self::EMPTY);
        for group in (0..self.keys.len()).filter(|group| Some(*group) != self.null_group) {
            let key = self.keys[group];
            let mut place = self.place(key);
            while self.slots[place].group != NONE {
                place = (place + 1) & (slots - 1);
            }
            self.slots[place] = Slot { key, group: group as u32 };
        }
    }

    fn add_chunk(&mut self, keys: &[T::Native], groups: &mut Vec<usize>) -> Result<()> {
        self.reserve(keys.len())?;
        if size_of_val(self.slots.as_slice()) <= CACHED_BYTES {
            groups.extend(keys.iter().map(|key| self.find_or_add(*key)));
            return Ok(());
        }
        let mut slots = [Self::EMPTY; CHUNK_ROWS];
        for (slot, key) in slots.iter_mut().zip(keys) {
            *slot = self.slots[self.place(*key)];
        }
        // A slot that was empty may be taken meanwhile, by a row of this chunk; one with a key stays as it is.
        groups.extend(slots.iter().zip(keys).map(|(slot, key)| {
            match slot.key == *key && slot.group != NONE {
                true => slot.group as usize,
                false => self.find_or_add(*key),
            }
        }));
        Ok(())
    }

    /// The group of a key, for which there must be room.
    #[inline]
    fn find_or_add(&mut self, key: T::Native) -> usize {
        let mut place = self.place(key);
        loop {
            let slot = self.slots[place];
            if slot.group == NONE {
                self.slots[place] = Slot { key, group: self.keys.len() as u32 };
                self.keys.push(key);
                return self.keys.len() - 1;
            }
            if slot.key == key {
                return slot.group as usize;
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }

    fn find_or_add_null(&mut self) -> usize {
        *self.null_group.get_or_insert_with(|| {
            self.keys.push(T::Native::ZERO);
            self.keys.len() - 1
        })
    }

    fn array(&self, keys: Vec<T::Native>, null_group: Option<usize>) -> ArrayRef {
        let groups = keys.len();
        let nulls = null_group.map(|null| (0..groups).map(|group| group != null).collect::<NullBuffer>());
        Arc::new(PrimitiveArray::<T>::new(keys.into(), nulls).with_data_type(self.data_type.clone()))
    }
}

impl<T: ArrowPrimitiveType<Native: Hash + Eq>> GroupValues for Numbers<T> {
    fn intern(&mut self, columns: &[ArrayRef], groups: &mut Vec<usize>) -> Result<()> {
        let [column] = columns else { return exec_err!("{} key columns, not one", columns.len()) };
        let Some(column) = column.as_primitive_opt::<T>() else {
            return exec_err!("a key of type {}, not {}", column.data_type(), self.data_type);
        };
        groups.clear();
        groups.reserve(column.len());
        let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return column.values().chunks(CHUNK_ROWS).try_for_each(|keys| self.add_chunk(keys, groups));
        };
        for (key, valid) in column.values().iter().zip(nulls) {
            self.reserve(1)?;
            groups.push(if valid { self.find_or_add(*key) } else { self.find_or_add_null() });
        }
        Ok(())
    }

    fn size(&self) -> usize {
        self.slots.capacity() * size_of::<Slot<T::Native>>() + self.keys.capacity() * size_of::<T::Native>()
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn len(&self) -> usize {
        self.keys.len()
    }

    fn emit(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let keys = emit_to.take_needed(&mut self.keys);
        let emitted = keys.len();
        let null_group = self.null_group.filter(|group| *group < emitted);
        self.null_group = self.null_group.and_then(|group| group.checked_sub(emitted));
        self.rebuild(self.slots.len());
        Ok(vec![self.array(keys, null_group)])
    }

    fn clear_shrink(&mut self, rows: usize) {
        let slots = self.slots.len().min(Self::slots_for(rows));
        let is_clear = self.keys.is_empty() && slots == self.slots.len();
        self.keys.clear();
        self.keys.shrink_to(rows);
        self.null_group = None;
        if !is_clear {
            self.rebuild(slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::datatypes::Int32Type;
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Intern(Vec<Option<i32>>),
        Emit(EmitTo),
        Shrink(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let key = prop_oneof![-9..9i32, any::<i32>()];
        let some = key.clone().prop_map(Some);
        prop_oneof![
            2 => prop::collection::vec(prop::option::of(key), 0..600).prop_map(Step::Intern),
            2 => prop::collection::vec(some, 0..600).prop_map(Step::Intern),
            1 => (0..400usize).prop_map(|n| Step::Emit(EmitTo::First(n))),
            1 => Just(Step::Emit(EmitTo::All)),
            1 => (0..400usize).prop_map(Step::Shrink),
        ]
    }

    proptest! {
        #[test]
        fn groups_are_numbered_as_they_come(steps in prop::collection::vec(step(), 1..12)) {
            let mut numbers = Numbers::<Int32Type>::new(DataType::Int32);
            let mut expected: Vec<Option<i32>> = Vec::new();
            for step in steps {
                match step {
                    Step::Intern(keys) => {
                        let mut groups = vec![7];
                        let column: ArrayRef = Arc::new(PrimitiveArray::<Int32Type>::from(keys.clone()));
                        numbers.intern(&[column], &mut groups).unwrap();
                        let mut known: HashMap<_, _> =
                            expected.iter().enumerate().map(|(group, key)| (*key, group)).collect();
                        for (key, group) in keys.iter().zip(&groups) {
                            let next = known.len();
                            prop_assert_eq!(*known.entry(*key).or_insert(next), *group);
                            if next < known.len() {
                                expected.push(*key);
                            }
                        }
                        prop_assert_eq!(keys.len(), groups.len());
                    }
                    Step::Emit(to) => {
                        let count = match to {
                            EmitTo::All => expected.len(),
                            EmitTo::First(n) => n.min(expected.len()),
                        };
                        let to = if matches!(to, EmitTo::All) { to } else { EmitTo::First(count) };
                        let emitted = numbers.emit(to).unwrap();
                        let emitted: Vec<_> = emitted[0].as_primitive::<Int32Type>().iter().collect();
                        prop_assert_eq!(emitted, expected.drain(..count).collect::<Vec<_>>());
                    }
                    Step::Shrink(rows) => {
                        numbers.clear_shrink(rows);
                        expected.clear();
                    }
                }
                prop_assert_eq!(numbers.len(), expected.len());
            }
        }
    }
}
