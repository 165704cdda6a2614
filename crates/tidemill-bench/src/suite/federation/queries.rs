//! The three scenarios of PGSpider's measurement, in SQL that every engine understands.

/// What is known of a query's answer.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Answer {
    /// The same rows as anywhere, in any order.
    Rows,
    /// That many, whichever.
    Count(usize),
}

pub(super) struct Query {
    pub scenario: u32,
    pub name: &'static str,
    pub sql: &'static str,
    pub answer: Answer,
}

impl Query {
    /// What it is called in results and checks.
    pub fn title(&self) -> String {
        format!("{}: {}", self.scenario, self.name)
    }
}

/// As the talk calls them.
pub(super) const SCENARIOS: [&str; 3] = [
    "search for big tables stored in time series databases",
    "join small tables stored in relational databases",
    "join large tables",
];

const fn query(scenario: u32, name: &'static str, sql: &'static str) -> Query {
    Query { scenario, name, sql, answer: Answer::Rows }
}

const fn rows(name: &'static str, sql: &'static str, count: usize) -> Query {
    Query { scenario: 1, name, sql, answer: Answer::Count(count) }
}

/// `n0s1` is a sensor of the first node.
pub(super) const QUERIES: [Query; 15] = [
    rows("limit 1", "select * from bench_hist limit 1", 1),
    rows("limit 1000", "select * from bench_hist limit 1000", 1000),
    rows("limit 10000", "select * from bench_hist limit 10000", 10_000),
    query(1, "order by limit", "select eid, ts, v from bench_hist order by v desc, eid, ts limit 1"),
    query(1, "where", "select eid, ts, v from bench_hist where eid = 'n0s1' and ts = '2019-01-01 00:00:07'"),
    query(1, "aggregate", "select sum(v), count(*), avg(v) from bench_hist"),
    query(1, "group by", "select eid, sum(v) from bench_hist group by eid"),
    query(
        1,
        "having",
        "select eid, max(v) from bench_hist group by eid having count(*) > 1 and min(v) < 500",
    ),
    query(
        1,
        "group by order by",
        "select eid, count(*) as n from bench_hist group by eid order by n desc, eid limit 20",
    ),
    query(2, "join small", "select s.eid, u.unit from bench_signal s join bench_unit u on s.name = u.name"),
    query(
        2,
        "join small aggregate",
        "select u.unit, count(*) from bench_signal s join bench_unit u on s.name = u.name group by u.unit",
    ),
    query(
        2,
        "join small aggregate where",
        "select u.unit, count(*) from bench_signal s join bench_unit u on s.name = u.name where s.eid < 'n0s5' group by u.unit",
    ),
    query(
        3,
        "join large where",
        "select s.name, h.ts, h.v from bench_hist h join bench_signal s on h.eid = s.eid where s.eid = 'n0s1' and h.v > 900",
    ),
    query(
        3,
        "join large aggregate",
        "select s.name, avg(h.v) from bench_hist h join bench_signal s on h.eid = s.eid group by s.name",
    ),
    query(
        3,
        "join large subquery",
        "select s.name, m.top from bench_signal s join (select eid, max(v) as top from bench_hist group by eid) m on m.eid = s.eid",
    ),
];
