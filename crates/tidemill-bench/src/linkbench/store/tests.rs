//! The contract of a store, run against every database that is there.

use super::*;
use crate::linkbench::compat::Compat;
use crate::linkbench::properties::Properties;
use crate::linkbench::schema::Schema;
use crate::linkbench::test_server::{Server, each_target};
use crate::target::{Dialect, Target};

/// Fresh tables and a session on them.
struct Bench {
    store: SqlStore,
    is_text: bool,
}

impl Bench {
    fn new(target: &Target, definitions: &[&str]) -> Bench {
        Bench::compatible(target, definitions, Compat::none())
    }

    fn compatible(target: &Target, definitions: &[&str], compat: Compat) -> Bench {
        let mut properties = Properties::default();
        definitions.iter().for_each(|definition| properties.define(definition).unwrap());
        let schema = Schema::new(&properties, target.dialect()).unwrap();
        let mut connection = target.connect().unwrap();
        let statements =
            [schema.drop_tables(), schema.create_tables(), schema.finish(), schema.restart_nodes(10)]
                .concat();
        for statement in statements {
            connection.execute(&statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
        let connection = target.connect().unwrap();
        let store = SqlStore::new(connection, &properties, &schema, compat).unwrap();
        Bench { store, is_text: schema.is_text() }
    }

    fn link(&mut self, id2: i64) -> Option<Link> {
        (self.store.multiget(1, TYPE, &[id2]).unwrap() == 1).then(|| self.store.link(0))
    }

    fn list(&mut self, query: &ListQuery) -> Vec<Link> {
        let rows = self.store.list_links(query).unwrap();
        (0..rows).map(|row| self.store.link(row)).collect()
    }

    fn listed(&mut self) -> Vec<Link> {
        self.list(&ALL)
    }

    fn count(&mut self) -> i64 {
        self.store.count_links(1, TYPE).unwrap()
    }
}

const TYPE: i64 = FIRST_LINK_TYPE;
const ALL: ListQuery =
    ListQuery { id1: 1, link_type: TYPE, time_min: 0, time_max: i64::MAX, offset: 0, limit: 10_000 };

fn link(id2: i64, time: i64) -> Link {
    Link { id1: 1, link_type: TYPE, id2, is_visible: true, data: b"data".to_vec(), version: 0, time }
}

/// All choices that change what is sent.
const STYLES: [&[&str]; 5] = [
    &[],
    &["link_update=upsert", "statements=literal"],
    &["multiget=prepared", "id_type=numeric"],
    &["data_type=text", "statements=literal"],
    &["partitions=4", "covering_index=false"],
];

fn each_style(check: impl Fn(&mut Bench)) {
    each_target(|server: &Server| {
        // SQLite has no partitions.
        let styles = if server.target().dialect() == Dialect::Sqlite { &STYLES[..4] } else { &STYLES[..] };
        for style in styles {
            eprintln!("{} {style:?}", server.name());
            check(&mut Bench::new(server.target(), style));
        }
        eprintln!("{} round-trips", server.name());
        let compat = Compat { round_trips: true, ..Compat::none() };
        check(&mut Bench::compatible(server.target(), &[], compat));
    });
}

#[test]
fn links_are_added_hidden_shown_and_expunged() {
    each_style(|bench| {
        let fresh = link(7, 1_000);
        assert_eq!(bench.store.add_link(&fresh).unwrap(), Written::Inserted);
        assert_eq!(
            (bench.link(7), bench.count(), bench.listed()),
            (Some(fresh.clone()), 1, vec![fresh.clone()])
        );

        assert!(bench.store.delete_link(1, TYPE, 7, Removal::Hide).unwrap());
        let hidden = Link { is_visible: false, ..fresh.clone() };
        assert_eq!((bench.link(7), bench.count(), bench.listed()), (Some(hidden), 0, vec![]));
        assert!(!bench.store.delete_link(1, TYPE, 7, Removal::Hide).unwrap());
        assert_eq!(bench.count(), 0);

        let again = Link { data: b"again".to_vec(), time: 2_000, version: 3, ..fresh.clone() };
        bench.store.add_link(&again).unwrap();
        assert_eq!((bench.link(7), bench.count()), (Some(again.clone()), 1));
        let same = Link { data: b"same".to_vec(), time: 3_000, ..fresh };
        assert_eq!(bench.store.add_link(&same).unwrap(), Written::Updated);
        assert_eq!((bench.link(7), bench.count()), (Some(same), 1));

        assert!(bench.store.delete_link(1, TYPE, 7, Removal::Expunge).unwrap());
        assert_eq!((bench.link(7), bench.count(), bench.listed()), (None, 0, vec![]));
        assert!(!bench.store.delete_link(1, TYPE, 7, Removal::Expunge).unwrap());
    });
}

#[test]
fn expunging_a_hidden_link_leaves_the_count() {
    each_style(|bench| {
        bench.store.add_link(&link(7, 1)).unwrap();
        bench.store.add_link(&link(8, 1)).unwrap();
        bench.store.delete_link(1, TYPE, 7, Removal::Hide).unwrap();
        assert!(bench.store.delete_link(1, TYPE, 7, Removal::Expunge).unwrap());
        assert_eq!(bench.count(), 1);
    });
}

#[test]
fn updates_change_counts_with_visibility_only() {
    each_style(|bench| {
        assert_eq!(bench.store.update_link(&link(7, 1)).unwrap(), Written::Inserted);
        assert_eq!(bench.store.detours(), Detours { add_to_update: 0, update_to_add: 1 });
        assert_eq!(bench.store.update_link(&link(7, 2)).unwrap(), Written::Updated);
        assert_eq!(bench.count(), 1);
        let hidden = Link { is_visible: false, ..link(7, 3) };
        bench.store.update_link(&hidden).unwrap();
        assert_eq!((bench.count(), bench.link(7)), (0, Some(hidden.clone())));
        // Added hidden over hidden, and new but hidden: neither counts.
        bench.store.add_link(&hidden).unwrap();
        bench.store.add_link(&Link { id2: 8, ..hidden }).unwrap();
        assert_eq!((bench.count(), bench.listed().len()), (0, 0));
        bench.store.update_link(&link(7, 4)).unwrap();
        assert_eq!((bench.count(), bench.listed().len()), (1, 1));
    });
}

#[test]
fn a_node_goes_with_its_links() {
    each_style(|bench| {
        let node = Node { id: 0, node_type: NODE_TYPE, version: 1, time: 7, data: b"node".to_vec() };
        bench.store.add_node(&node).unwrap();
        let id1 = bench.store.last_node_id().unwrap();
        let types = FIRST_LINK_TYPE..FIRST_LINK_TYPE + 2;
        for (link_type, id2) in [(TYPE, 1), (TYPE, 2), (TYPE, 3), (TYPE + 1, 1)] {
            bench.store.add_link(&Link { id1, link_type, ..link(id2, 5) }).unwrap();
        }
        bench.store.delete_link(id1, TYPE, 2, Removal::Hide).unwrap();
        bench.store.add_link(&link(7, 5)).unwrap();
        assert!(bench.store.delete_node_and_links(NODE_TYPE, id1, types.clone()).unwrap());
        for link_type in types.clone() {
            assert_eq!(bench.store.count_links(id1, link_type).unwrap(), 0);
            assert!(bench.list(&ListQuery { id1, link_type, ..ALL }).is_empty());
            bench.store.check_count(id1, link_type).unwrap();
        }
        assert_eq!(bench.store.multiget(id1, TYPE, &[1, 2, 3]).unwrap(), 3);
        assert_eq!((bench.count(), bench.listed().len()), (1, 1));
        assert!(!bench.store.delete_node_and_links(NODE_TYPE, id1, types).unwrap());
    });
}

#[test]
fn lists_are_newest_first_within_bounds() {
    each_style(|bench| {
        for id2 in 0..256 {
            bench.store.add_link(&link(id2, 1_000 + id2)).unwrap();
        }
        assert_eq!(bench.count(), 256);
        let times = |links: Vec<Link>| links.into_iter().map(|link| link.time).collect::<Vec<_>>();
        assert_eq!(times(bench.listed()), (1_000..1_256).rev().collect::<Vec<_>>());
        let query = ListQuery { time_min: 1_010, time_max: 1_020, ..ALL };
        assert_eq!(times(bench.list(&query)), (1_010..=1_020).rev().collect::<Vec<_>>());
        let query = ListQuery { offset: 3, limit: 2, ..query };
        assert_eq!(times(bench.list(&query)), [1_017, 1_016]);
        assert_eq!((bench.store.link_time(0), bench.store.link_time(1)), (1_017, 1_016));
        assert!(bench.list(&ListQuery { link_type: TYPE + 1, ..ALL }).is_empty());
        assert_eq!(bench.store.count_links(1, TYPE + 1).unwrap(), 0);

        bench.store.delete_link(1, TYPE, 5, Removal::Hide).unwrap();
        assert_eq!(bench.store.multiget(1, TYPE, &[4, 5, 999, 4]).unwrap(), 2);
        let mut seen = [0, 1].map(|row| (bench.store.link(row).id2, bench.store.link(row).is_visible));
        seen.sort_unstable();
        assert_eq!(seen, [(4, true), (5, false)]);

        bench.store.keep_last_rows();
        let listed = bench.store.list_links(&ALL).unwrap();
        assert_eq!((listed, bench.store.link(254).time, bench.store.link_time(0)), (255, 1_000, 0));
        assert_eq!(bench.store.list_links(&query).unwrap(), 2);
        assert_eq!(bench.store.link_time(1), 1_016);
        assert_eq!(bench.store.list_links(&ListQuery { link_type: TYPE + 1, ..ALL }).unwrap(), 0);
        assert_eq!(bench.store.multiget(1, TYPE, &[4, 5, 999, 4]).unwrap(), 2);
    });
}

#[test]
fn data_comes_back_byte_for_byte() {
    each_style(|bench| {
        // A text column has no byte 0 on PostgreSQL; and text of 8 KB and more bytes is as good as binary there.
        let bytes: Vec<u8> = (u8::from(bench.is_text)..=255).collect();
        for (id2, data) in [(1, bytes.clone()), (2, b"it's \"quoted\" \\ \\x41 ?".to_vec()), (3, Vec::new())]
        {
            let link = Link { data, ..link(id2, 5) };
            bench.store.add_link(&link).unwrap();
            assert_eq!(bench.link(id2), Some(link.clone()));
            let data = [link.data.as_slice(), b"'more"].concat();
            let link = Link { data, ..link };
            bench.store.update_link(&link).unwrap();
            assert_eq!(bench.link(id2), Some(link));
        }
        let large: Vec<u8> = bytes.into_iter().cycle().take(8_192).collect();
        let node = Node { id: 0, node_type: NODE_TYPE, version: 1, time: 7, data: large.clone() };
        bench.store.add_node(&node).unwrap();
        let id = bench.store.last_node_id().unwrap();
        assert!(bench.store.get_node(NODE_TYPE, id).unwrap());
        assert_eq!(bench.store.node(), Node { id, ..node });
    });
}

#[test]
fn nodes_are_numbered_and_keep_their_type() {
    each_style(|bench| {
        let node = Node { id: 0, node_type: NODE_TYPE, version: 1, time: 7, data: b"node".to_vec() };
        for expected in [10, 11, 12] {
            bench.store.add_node(&node).unwrap();
            assert_eq!(bench.store.last_node_id().unwrap(), expected);
        }
        assert!(!bench.store.get_node(NODE_TYPE + 1, 10).unwrap());
        assert!(!bench.store.get_node(NODE_TYPE, 99).unwrap());
        let changed = Node { id: 11, version: 2, time: 8, data: b"other".to_vec(), ..node };
        assert!(bench.store.update_node(&changed).unwrap());
        assert!(!bench.store.update_node(&Node { node_type: 1, ..changed.clone() }).unwrap());
        assert!(!bench.store.update_node(&Node { id: 99, ..changed.clone() }).unwrap());
        assert!(bench.store.get_node(NODE_TYPE, 11).unwrap());
        assert_eq!(bench.store.node(), changed);
        assert!(!bench.store.delete_node(1, 11).unwrap());
        assert!(bench.store.delete_node(NODE_TYPE, 11).unwrap());
        assert!(!bench.store.delete_node(NODE_TYPE, 11).unwrap());
        assert!(!bench.store.get_node(NODE_TYPE, 11).unwrap());
    });
}
