//! Runs as a whole: written, read, looked into, merged, damaged.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::*;

use super::*;
use crate::disk::sim::SimDisk;
use crate::disk::{Disk, Operation, read_file};

const LAYOUT: &str = "test 1";

/// SplitMix64: the same sequence for the same seed, everywhere.
struct Random(u64);

impl Random {
    /// A new seed each time, printed, since the output of a failed test is shown.
    fn new(test: &str) -> Self {
        let seed = match std::env::var("RUN_TEST_SEED") {
            Ok(seed) => seed.parse().unwrap(),
            Err(_) => std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64,
        };
        eprintln!("{test}: RUN_TEST_SEED={seed}");
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn text(&mut self) -> String {
        (0..self.below(20)).map(|_| char::from(b'a' + self.below(4) as u8)).collect()
    }
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let columns = columns.into_iter().enumerate().map(|(i, column)| (format!("c{i}"), column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn encoder(batch: &RecordBatch, keys: usize) -> KeyEncoder {
    KeyEncoder::try_new(batch.schema_ref(), keys).unwrap()
}

/// Sorted by key, and the first row of each key only.
fn sorted_unique(batch: &RecordBatch, keys: usize) -> RecordBatch {
    let encoder = encoder(batch, keys);
    let windows: Vec<_> = Sorted::try_new(batch.clone(), &encoder).unwrap().collect::<Result<_>>().unwrap();
    let sorted = concat_batches(batch.schema_ref(), &windows).unwrap();
    let encoded = encoder.encode(&sorted).unwrap();
    let firsts: UInt32Array = (0..sorted.num_rows())
        .filter(|&row| row == 0 || encoded.get(row - 1) != encoded.get(row))
        .map(|row| row as u32)
        .collect::<Vec<_>>()
        .into();
    take_record_batch(&sorted, &firsts).unwrap()
}

fn write(disk: &SimDisk, path: &str, batches: &[RecordBatch], keys: usize) -> RunInfo {
    let schema = batches[0].schema();
    let mut writer =
        RunWriter::create(Arc::new(disk.clone()), Path::new(path), schema, keys, LAYOUT).unwrap();
    for batch in batches {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap()
}

fn cache() -> Arc<BlockCache> {
    Arc::new(BlockCache::new(8 * 1024 * 1024))
}

fn open(disk: &SimDisk, path: &str) -> Arc<Run> {
    Arc::new(Run::open(disk, Path::new(path), LAYOUT, cache()).unwrap())
}

fn collect(scan: Scan, schema: &SchemaRef) -> RecordBatch {
    concat_batches(schema, &scan.collect::<Result<Vec<_>>>().unwrap()).unwrap()
}

/// Writes, reads back, finds every key, and checks ranges that begin and end anywhere.
fn round_trip(unsorted: &RecordBatch, keys: usize) -> RunInfo {
    let batch = sorted_unique(unsorted, keys);
    let disk = SimDisk::new();
    let info = write(
        &disk,
        "run",
        &[
            batch.slice(0, batch.num_rows() / 3),
            batch.slice(batch.num_rows() / 3, batch.num_rows() - batch.num_rows() / 3),
        ],
        keys,
    );
    let run = open(&disk, "run");
    assert_eq!((info.rows, info.bytes), (batch.num_rows() as u64, run.bytes()));
    assert_eq!(collect(run.scan(), run.schema()), batch);
    let encoded = run.encoder().encode(&batch).unwrap();
    assert_eq!(run.first_key(), Some(encoded.get(0)));
    assert_eq!(run.last_key(), Some(info.last_key.as_slice()));
    for row in (0..batch.num_rows()).step_by(batch.num_rows().div_ceil(500)) {
        let (found, at) = run.get(encoded.get(row)).unwrap().expect("present");
        assert_eq!(found.slice(at, 1), batch.slice(row, 1));
        let to = (row + row / 2).min(batch.num_rows() - 1);
        for (from, to, start, end) in [
            (Bound::Included(encoded.get(row)), Bound::Excluded(encoded.get(to)), row, to),
            (Bound::Excluded(encoded.get(row)), Bound::Included(encoded.get(to)), row + 1, to + 1),
            (Bound::Unbounded, Bound::Included(encoded.get(row)), 0, row + 1),
        ] {
            let found: usize = run.range(from, to).map(|batch| batch.unwrap().num_rows()).sum();
            assert_eq!(found, end - start);
            if let Some(first) = run.range(from, to).next() {
                assert_eq!(first.unwrap().slice(0, 1), batch.slice(start, 1));
            }
        }
    }
    info
}

fn some_nulls(random: &mut Random, rows: usize) -> NullBuffer {
    NullBuffer::new(BooleanBuffer::collect_bool(rows, |_| random.below(10) > 0))
}

/// One array of each type that can be a key.
fn key_columns(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    let mut numbers: Vec<i64> = (0..rows).map(|_| random.next() as i64 >> random.below(60)).collect();
    numbers[0] = i64::MIN;
    let texts: Vec<String> = (0..rows).map(|_| random.text()).collect();
    let opaque: Vec<Option<&str>> =
        texts.iter().map(|text| (random.below(9) > 0).then_some(text.as_str())).collect();
    let nulls = some_nulls(random, rows);
    let micros = || numbers.iter().map(|n| n / 1000);
    let list_offsets = OffsetBuffer::from_lengths((0..rows).map(|row| row % 3));
    let list_values = Int64Array::from_iter_values((0..list_offsets[rows] as i64).map(|n| n % 5));
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let pair = StructArray::from(vec![
        (
            Arc::new(Field::new("a", DataType::Int64, true)),
            Arc::new(Int64Array::from(numbers.clone())) as ArrayRef,
        ),
        (
            Arc::new(Field::new("b", DataType::Utf8, true)),
            Arc::new(StringArray::from(opaque.clone())) as ArrayRef,
        ),
    ]);
    let dictionary: DictionaryArray<Int32Type> = opaque.iter().copied().collect();
    let uuids: Vec<[u8; 16]> = (0..rows).map(|_| (u128::from(random.next()) << 64).to_be_bytes()).collect();
    vec![
        Arc::new(BooleanArray::new(
            BooleanBuffer::collect_bool(rows, |row| row % 2 == 0),
            Some(nulls.clone()),
        )),
        Arc::new(Int16Array::from_iter(numbers.iter().map(|&n| Some(n as i16)))),
        Arc::new(Int32Array::from_iter(numbers.iter().map(|&n| (n % 7 != 0).then_some(n as i32)))),
        Arc::new(Int64Array::new(numbers.clone().into(), Some(nulls.clone()))),
        Arc::new(Float32Array::from_iter_values(numbers.iter().map(|&n| n as f32 / 3.0))),
        Arc::new(Float64Array::from_iter(numbers.iter().map(|&n| (n % 5 != 0).then_some(1.0 / n as f64)))),
        Arc::new(StringArray::from(opaque.clone())),
        Arc::new(LargeStringArray::from(opaque.clone())),
        Arc::new(StringViewArray::from(opaque.clone())),
        Arc::new(BinaryArray::from_iter(opaque.iter().map(|text| text.map(str::as_bytes)))),
        Arc::new(LargeBinaryArray::from_iter(opaque.iter().map(|text| text.map(str::as_bytes)))),
        Arc::new(BinaryViewArray::from_iter(opaque.iter().map(|text| text.map(str::as_bytes)))),
        Arc::new(Date32Array::from_iter_values(numbers.iter().map(|&n| n as i32))),
        Arc::new(Time64MicrosecondArray::from_iter_values(micros())),
        Arc::new(TimestampMicrosecondArray::from_iter_values(micros())),
        Arc::new(TimestampMicrosecondArray::from_iter_values(micros()).with_timezone("UTC")),
        Arc::new(IntervalMonthDayNanoArray::from_iter_values(
            numbers.iter().map(|&n| IntervalMonthDayNano::new((n % 100) as i32, (n % 7) as i32, n)),
        )),
        Arc::new(FixedSizeBinaryArray::try_from_iter(uuids.iter()).unwrap()),
        Arc::new(Decimal128Array::from_iter_values(numbers.iter().map(|&n| i128::from(n) << 30))),
        Arc::new(Decimal256Array::from_iter_values(numbers.iter().map(|&n| i256::from(n)))),
        Arc::new(UInt32Array::from_iter_values(numbers.iter().map(|&n| n as u32))),
        Arc::new(ListArray::new(item, list_offsets, Arc::new(list_values), Some(nulls))),
        Arc::new(pair),
        Arc::new(dictionary),
        Arc::new(NullArray::new(rows)),
    ]
}

/// Every type, every third row, as state columns: slices must not drag the rest along.
fn state_columns(random: &mut Random, rows: usize) -> Vec<ArrayRef> {
    let mut columns = key_columns(random, rows);
    let views =
        StringViewArray::from_iter_values((0..rows * 2).map(|n| format!("a text of state number {n}")));
    let field = Arc::new(Field::new("item", DataType::Utf8View, true));
    let offsets = OffsetBuffer::from_lengths(vec![2; rows]);
    let list = ListArray::new(field, offsets, Arc::new(views), None);
    let wrapped = StructArray::from(vec![(
        Arc::new(Field::new("list", list.data_type().clone(), true)),
        Arc::new(list.clone()) as ArrayRef,
    )]);
    columns.push(Arc::new(list));
    columns.push(Arc::new(wrapped));
    columns
}

#[test]
fn every_type_as_a_key() {
    let mut random = Random::new("every_type_as_a_key");
    for key in key_columns(&mut random, 2000) {
        let value = Arc::new(Int64Array::from_iter_values(0..2000));
        round_trip(&batch(vec![key, value]), 1);
    }
}

#[test]
fn several_key_columns_and_every_type_of_state() {
    let mut random = Random::new("several_key_columns");
    for rows in [1, 2, 500, 9000] {
        let mut columns: Vec<ArrayRef> = key_columns(&mut random, rows).into_iter().take(8).collect();
        columns.extend(state_columns(&mut random, rows));
        for keys in [2, 8] {
            round_trip(&batch(columns.clone()), keys);
        }
    }
}

#[test]
fn no_key_columns() {
    let state = batch(vec![Arc::new(Int64Array::from(vec![42]))]);
    let info = round_trip(&state, 0);
    assert_eq!((info.rows, info.first_key, info.last_key), (1, vec![], vec![]));
    let disk = SimDisk::new();
    let mut writer =
        RunWriter::create(Arc::new(disk.clone()), Path::new("run"), state.schema(), 0, LAYOUT).unwrap();
    writer.append(&state).unwrap();
    assert!(matches!(writer.append(&state), Err(RunError::Unsorted)), "one group only");
}

#[test]
fn everything_can_move_to_another_thread() {
    fn is_send_and_static<T: Send + 'static>() {}
    is_send_and_static::<RunWriter>();
    is_send_and_static::<Arc<Run>>();
    is_send_and_static::<Merge<Scan>>();
}

#[test]
fn no_rows() {
    let disk = SimDisk::new();
    let empty = batch(vec![Arc::new(Int64Array::from(Vec::<i64>::new()))]);
    write(&disk, "run", &[empty], 1);
    let run = open(&disk, "run");
    assert_eq!((run.rows(), run.first_key(), run.last_key()), (0, None, None));
    assert_eq!(run.scan().count(), 0);
    assert!(run.get(b"").unwrap().is_none() && run.get(b"x").unwrap().is_none());
}

fn int_batch(keys: impl IntoIterator<Item = i64>) -> RecordBatch {
    let keys = Int64Array::from_iter_values(keys);
    let values: Int64Array = keys.values().iter().map(|key| Some(key.wrapping_mul(10))).collect();
    batch(vec![Arc::new(keys), Arc::new(values)])
}

#[test]
fn absent_keys_are_not_found_and_mostly_not_read() {
    let disk = SimDisk::new();
    write(&disk, "run", &[int_batch((0..100_000).map(|n| n * 2))], 1);
    let run = Run::open(&disk, Path::new("run"), LAYOUT, cache()).unwrap();
    let asked = int_batch((-5..100_000).map(|n| n * 2 + 1).chain([i64::MIN, i64::MAX]));
    let keys = run.encoder().encode(&asked).unwrap();
    let filtered = (0..keys.len())
        .filter(|&row| {
            assert!(run.get(keys.get(row)).unwrap().is_none());
            run.candidate(keys.get(row)).unwrap().is_some()
        })
        .count();
    assert!(filtered < 3000, "{filtered} absent keys pass the filters");
}

#[test]
fn unsorted_and_foreign_rows_are_refused_and_nothing_stays_behind() {
    let disk = SimDisk::new();
    let create = || {
        let schema = int_batch([]).schema();
        RunWriter::create(Arc::new(disk.clone()), Path::new("run"), schema, 1, LAYOUT).unwrap()
    };
    for wrong in [vec![1, 1], vec![2, 1], vec![1, 2, 3, 2]] {
        let mut writer = create();
        assert!(matches!(writer.append(&int_batch(wrong)), Err(RunError::Unsorted)));
    }
    let mut writer = create();
    writer.append(&int_batch(0..5000)).unwrap();
    assert!(matches!(writer.append(&int_batch(4999..5001)), Err(RunError::Unsorted)));
    let foreign = batch(vec![Arc::new(StringArray::from(vec!["a"])), Arc::new(Int64Array::from(vec![1]))]);
    assert!(matches!(writer.append(&foreign), Err(RunError::Schema { column: 0, .. })));
    writer.append(&int_batch(5000..5001)).unwrap();
    drop(writer);
    assert!(disk.list(Path::new("")).unwrap().is_empty(), "an unfinished run is removed");
    let mut writer = create();
    disk.fail(Operation::Append, 0);
    assert!(matches!(writer.append(&int_batch(0..10_000)), Err(RunError::Disk(_))));
    assert!(matches!(writer.finish(), Err(RunError::Failed { .. })));
    assert!(disk.list(Path::new("")).unwrap().is_empty());
}

#[test]
fn a_finished_run_survives_a_power_cut() {
    for seed in 0..20 {
        let disk = SimDisk::new();
        write(&disk, "run", &[int_batch(0..10_000)], 1);
        let run = open(&disk.crash(seed), "run");
        assert_eq!(collect(run.scan(), run.schema()), int_batch(0..10_000));
    }
}

#[test]
fn another_layout_or_version_is_refused() {
    let disk = SimDisk::new();
    write(&disk, "run", &[int_batch(0..10)], 1);
    let error = Run::open(&disk, Path::new("run"), "other", cache()).unwrap_err();
    assert!(matches!(&error, RunError::Layout { found, .. } if found == LAYOUT), "{error}");
    let mut bytes = read_file(&disk, Path::new("run")).unwrap();
    bytes[7] += 1;
    disk.create(Path::new("next")).unwrap().append(&bytes).unwrap();
    let error = Run::open(&disk, Path::new("next"), LAYOUT, cache()).unwrap_err();
    assert!(matches!(error, RunError::Version { found: 2, .. }), "{error}");
}

/// Opens a damaged file, reads all of it and looks up all keys: the right answer or an error that names the file.
fn read_all(bytes: &[u8], expected: &RecordBatch) -> Result<()> {
    let disk = SimDisk::new();
    disk.create(Path::new("run")).unwrap().append(bytes).unwrap();
    let run = Arc::new(Run::open(&disk, Path::new("run"), LAYOUT, cache())?);
    let encoded = run.encoder().encode(expected)?;
    for row in (0..expected.num_rows()).step_by(97) {
        let (found, at) = run.get(encoded.get(row))?.expect("a damaged filter must not hide a key");
        assert_eq!(found.slice(at, 1), expected.slice(row, 1));
    }
    let batches = run.scan().collect::<Result<Vec<_>>>()?;
    assert_eq!(&concat_batches(run.schema(), &batches).unwrap(), expected);
    Ok(())
}

#[test]
fn damage_is_always_noticed() {
    let mut random = Random::new("damage_is_always_noticed");
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(0..3000))];
    columns.extend(key_columns(&mut random, 3000));
    let batch = batch(columns);
    let disk = SimDisk::new();
    write(&disk, "run", std::slice::from_ref(&batch), 1);
    let good = read_file(&disk, Path::new("run")).unwrap();
    read_all(&good, &batch).unwrap();
    let check = |bytes: &[u8], what: String| match read_all(bytes, &batch) {
        Err(RunError::Corrupt { path, offset, .. }) => {
            assert!(path == Path::new("run") && offset <= bytes.len() as u64, "{what}")
        }
        Err(RunError::Version { .. }) => {}
        other => panic!("{what}: {other:?}"),
    };
    for _ in 0..400 {
        let mut bytes = good.clone();
        // Half of the hits go to the start and to the footer, which are small.
        let at = match random.below(4) {
            0 => random.below(8),
            1 => bytes.len() - 1 - random.below(2000),
            _ => random.below(bytes.len()),
        };
        bytes[at] ^= 1 << random.below(8);
        check(&bytes, format!("a bit flipped at {at}"));
    }
    for _ in 0..50 {
        let length = random.below(good.len());
        check(&good[..length], format!("cut to {length}"));
    }
}

/// Damage with matching checksums, as from a faulty memory while writing: an error or an answer, but no panic.
#[test]
fn a_wrong_footer_does_not_panic() {
    let mut random = Random::new("a_wrong_footer_does_not_panic");
    let disk = SimDisk::new();
    write(&disk, "run", &[int_batch(0..20_000)], 1);
    let good = read_file(&disk, Path::new("run")).unwrap();
    let trailer_at = good.len() - format::TRAILER_BYTES;
    let trailer = good[trailer_at..].try_into().unwrap();
    let trailer = format::Trailer::decode(trailer, Path::new("run"), good.len() as u64).unwrap();
    let footer_at = trailer.footer_offset as usize;
    // Arrow's own schema message is left alone.
    let schema_at = footer_at + 4 + LAYOUT.len();
    let schema_length = u32::from_le_bytes(good[schema_at..schema_at + 4].try_into().unwrap()) as usize;
    for _ in 0..2000 {
        let mut bytes = good.clone();
        let mut at = footer_at + random.below(trailer_at - footer_at);
        while (schema_at + 4..schema_at + 4 + schema_length).contains(&at) {
            at += schema_length;
        }
        bytes[at.min(trailer_at - 1)] = random.next() as u8;
        let footer_crc = crc32c::crc32c(&bytes[footer_at..trailer_at]);
        bytes[trailer_at..].copy_from_slice(&format::Trailer { footer_crc, ..trailer }.encode());
        let disk = SimDisk::new();
        disk.create(Path::new("run")).unwrap().append(&bytes).unwrap();
        let Ok(run) = Run::open(&disk, Path::new("run"), LAYOUT, cache()) else { continue };
        let run = Arc::new(run);
        let keys = run.encoder().encode(&int_batch((0..20_000).step_by(50)));
        if let Ok(keys) = keys {
            (0..keys.len()).for_each(|row| drop(run.get(keys.get(row))));
        }
        run.scan().for_each(drop);
    }
}

#[test]
fn long_keys_and_huge_states_keep_index_and_blocks_small() {
    let disk = SimDisk::new();
    let keys = StringArray::from_iter_values((0..20_000).map(|n| format!("{n:06}{}", "x".repeat(1000))));
    let huge =
        LargeBinaryArray::from_iter_values((0..20_000).map(|n| vec![7; if n == 10 { 3_000_000 } else { 5 }]));
    let batch = batch(vec![Arc::new(keys), Arc::new(huge)]);
    for start in (0..20_000).step_by(2_000) {
        let info = write(&disk, &format!("run{start}"), &[batch.slice(start, 2_000)], 1);
        assert_eq!(info.rows, 2_000);
    }
    let runs: Vec<_> = (0..20_000).step_by(2_000).map(|start| open(&disk, &format!("run{start}"))).collect();
    for run in &runs {
        assert!(run.memory_bytes() < 6_000, "{}", run.memory_bytes());
        for block in run.scan() {
            let block = block.unwrap();
            assert!(compact::slice_bytes(&block) <= BLOCK_BYTES || block.num_rows() == 1);
            assert!(block.num_rows() > 100 || block.num_rows() == 1 || block.num_rows() == 10);
        }
    }
    let all = runs.iter().flat_map(|run| run.scan()).collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(concat_batches(&batch.schema(), &all).unwrap(), batch);
}

#[test]
fn views_of_a_large_buffer_are_not_written_whole() {
    let views =
        StringViewArray::from_iter_values((0..100_000).map(|n| format!("a text that is outlined {n:07}")));
    let all = batch(vec![Arc::new(Int64Array::from_iter_values(0..100_000)), Arc::new(views)]);
    let info = round_trip(&all.slice(50_000, 100), 1);
    assert!(info.bytes < 10_000, "{} bytes for 100 rows", info.bytes);
}

/// The state of a group as the model sees it: the rows in the order of the inputs.
type Model = BTreeMap<Vec<u8>, Vec<(usize, i64)>>;

/// Checks chunks against the model: all rows, in order, groups whole and numbered from 0 in each chunk.
fn check_merge(schema: &SchemaRef, keys: usize, inputs: Vec<Vec<RecordBatch>>) -> usize {
    let encoder = KeyEncoder::try_new(schema, keys).unwrap();
    let mut model = Model::new();
    for (number, input) in inputs.iter().enumerate() {
        for batch in input {
            let encoded = encoder.encode(batch).unwrap();
            let values = batch.columns().last().unwrap().as_primitive::<Int64Type>();
            for row in 0..batch.num_rows() {
                model.entry(encoded.get(row).to_vec()).or_default().push((number, values.value(row)));
            }
        }
    }
    let inputs: Vec<_> = inputs.into_iter().map(|input| input.into_iter().map(Ok::<_, RunError>)).collect();
    let mut model = model.into_iter();
    let mut chunks = 0;
    for chunk in Merge::try_new(Arc::clone(schema), keys, inputs).unwrap() {
        let chunk = chunk.unwrap();
        let rows = chunk.batch.num_rows();
        assert!(rows > 0 && rows < 8192 + 100);
        assert_eq!(rows, chunk.groups.len());
        let encoded = encoder.encode(&chunk.batch).unwrap();
        let firsts = encoder.encode_columns(&chunk.group_keys(keys).unwrap(), chunk.group_count).unwrap();
        let values = chunk.batch.columns().last().unwrap().as_primitive::<Int64Type>();
        let mut row = 0;
        for group in 0..chunk.group_count {
            let (key, expected) = model.next().unwrap();
            assert_eq!(firsts.get(group), key);
            for (_, value) in expected {
                assert_eq!(
                    (encoded.get(row), chunk.groups[row], values.value(row)),
                    (&key[..], group, value)
                );
                row += 1;
            }
        }
        assert_eq!(row, rows);
        chunks += 1;
    }
    assert!(model.next().is_none(), "rows are missing");
    chunks
}

fn cut(random: &mut Random, batch: &RecordBatch, rows_max: usize) -> Vec<RecordBatch> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start < batch.num_rows() {
        let rows = random.below(rows_max + 1).min(batch.num_rows() - start);
        parts.push(batch.slice(start, rows));
        start += rows;
    }
    parts
}

#[test]
fn merges_agree_with_a_model() {
    let mut random = Random::new("merges_agree_with_a_model");
    for _ in 0..60 {
        let inputs = random.below(8);
        let space = [3, 50, 5_000, 1_000_000][random.below(4)];
        let rows_max = [1, 10, 3_000, 30_000][random.below(4)];
        let part_rows_max = [1, 100, 4096, 100_000][random.below(4)].max(rows_max / 1000);
        let text_key = random.below(2) == 0;
        let inputs: Vec<_> = (0..inputs)
            .map(|_| {
                let rows = random.below(rows_max + 1);
                // Dense stretches now and then, so that whole windows pass.
                let start = random.below(space);
                let dense = random.below(3) == 0;
                let keys: Vec<i64> =
                    (0..rows).map(|i| if dense { start + i } else { random.below(space) } as i64).collect();
                let second: ArrayRef = match text_key {
                    true => Arc::new(StringArray::from_iter_values(keys.iter().map(|key| format!("k{key}")))),
                    false => {
                        Arc::new(Int64Array::from_iter(keys.iter().map(|key| (key % 9 != 0).then_some(*key))))
                    }
                };
                let value = Int64Array::from_iter_values((0..rows).map(|_| random.next() as i64));
                let input = batch(vec![second, Arc::new(Int64Array::from(keys)), Arc::new(value)]);
                cut(&mut random, &sorted_unique(&input, 2), part_rows_max)
            })
            .collect();
        let schema = batch(vec![
            if text_key { new_empty_array(&DataType::Utf8) } else { new_empty_array(&DataType::Int64) },
            new_empty_array(&DataType::Int64),
            new_empty_array(&DataType::Int64),
        ])
        .schema();
        check_merge(&schema, 2, inputs);
    }
}

#[test]
fn merging_without_keys_makes_one_group() {
    let one = |value| batch(vec![Arc::new(Int64Array::from(vec![value]))]);
    let schema = one(0).schema();
    assert_eq!(check_merge(&schema, 0, vec![vec![one(3)], vec![one(1)], vec![], vec![one(2)]]), 1);
    assert_eq!(check_merge(&schema, 0, vec![]), 0);
    let twice = [vec![one(1), one(2)], vec![one(3)]];
    let twice = twice.map(|input| input.into_iter().map(Ok::<_, RunError>)).into_iter().collect();
    assert!(Merge::try_new(schema, 0, twice).unwrap().any(|chunk| matches!(chunk, Err(RunError::Unsorted))));
}

#[test]
fn what_does_not_overlap_is_not_copied() {
    let (a, b) = (int_batch(0..20_000), int_batch(20_000..30_000));
    let inputs = vec![vec![a.clone()], vec![b.clone()]];
    check_merge(&a.schema(), 1, inputs.clone());
    let inputs = inputs.into_iter().map(|input| input.into_iter().map(Ok::<_, RunError>)).collect();
    for chunk in Merge::try_new(a.schema(), 1, inputs).unwrap() {
        let chunk = chunk.unwrap();
        assert!(chunk.is_unique());
        let values = chunk.batch.column(1).to_data().buffers()[0].data_ptr();
        assert!([&a, &b].iter().any(|batch| batch.column(1).to_data().buffers()[0].data_ptr() == values));
    }
}

#[test]
fn unsorted_inputs_and_errors_end_a_merge() {
    let schema = int_batch([]).schema();
    let merge = |a: Vec<Result<RecordBatch>>, b: Vec<Result<RecordBatch>>| {
        Merge::try_new(Arc::clone(&schema), 1, vec![a.into_iter(), b.into_iter()])
            .unwrap()
            .collect::<Vec<_>>()
    };
    for wrong in
        [vec![int_batch([5, 4])], vec![int_batch([1, 9, 2, 10])], vec![int_batch(0..5), int_batch(4..9)]]
    {
        let chunks = merge(vec![Ok(int_batch((0..100).step_by(3)))], wrong.into_iter().map(Ok).collect());
        assert!(matches!(chunks.as_slice(), [.., Err(RunError::Unsorted)]));
    }
    let damaged = || Err(RunError::corrupt(Path::new("run"), 7, "test"));
    let chunks =
        merge(vec![Ok(int_batch(0..10)), damaged(), Ok(int_batch(20..30))], vec![Ok(int_batch(0..50))]);
    assert!(matches!(chunks.as_slice(), [.., Err(RunError::Corrupt { offset: 7, .. })]));
}

/// Runs are merged to a run as compaction does it.
#[test]
fn runs_merge_to_a_run() {
    let disk = SimDisk::new();
    let parts = [int_batch(0..30_000), int_batch((10_000..50_000).step_by(2)), int_batch(60_000..61_000)];
    for (number, part) in parts.iter().enumerate() {
        write(&disk, &format!("{number}"), std::slice::from_ref(part), 1);
    }
    let scans = (0..parts.len()).map(|number| open(&disk, &format!("{number}")).scan()).collect();
    let schema = parts[0].schema();
    let mut writer =
        RunWriter::create(Arc::new(disk.clone()), Path::new("all"), Arc::clone(&schema), 1, LAYOUT).unwrap();
    for chunk in Merge::try_new(schema, 1, scans).unwrap() {
        let chunk = chunk.unwrap();
        let firsts: UInt32Array = (0..chunk.groups.len() as u32)
            .filter(|&row| row == 0 || chunk.groups[row as usize] != chunk.groups[row as usize - 1])
            .collect::<Vec<_>>()
            .into();
        writer.append(&take_record_batch(&chunk.batch, &firsts).unwrap()).unwrap();
    }
    assert_eq!(writer.finish().unwrap().rows, 41_000);
    let all = open(&disk, "all");
    let expected = int_batch((0..30_000).chain((30_000..50_000).step_by(2)).chain(60_000..61_000));
    assert_eq!(collect(all.scan(), all.schema()), expected);
}
