//! A session that shows what it types and what comes back, as psql does.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use comfy_table::{CellAlignment, Table};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_postgres::error::DbError;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::{AsyncMessage, Client, Connection, NoTls, SimpleQueryMessage, Socket};

pub struct Psql {
    client: Client,
    /// What the server has said beside its answers; it is taken after each of them.
    notices: UnboundedReceiver<DbError>,
}

impl Psql {
    pub async fn connect(address: SocketAddr) -> Result<Self, String> {
        let options = format!("host={} port={} user=postgres dbname=tidemill", address.ip(), address.port());
        let (client, connection) =
            tokio_postgres::connect(&options, NoTls).await.map_err(|e| e.to_string())?;
        let (sender, notices) = unbounded_channel();
        tokio::spawn(drive(connection, sender));
        Ok(Self { client, notices })
    }

    /// For what is not shown.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Types a statement and shows its answer and how long that took.
    pub async fn show(&mut self, sql: &str) -> Result<(), String> {
        echo(sql);
        let started = Instant::now();
        let answer = self.client.simple_query(sql).await.map_err(describe)?;
        let elapsed = started.elapsed();
        self.print_notices();
        print(&answer);
        print_time(elapsed);
        Ok(())
    }

    /// Types statements that answer nothing, one after the other.
    pub async fn run(&mut self, statements: &[impl AsRef<str>]) -> Result<(), String> {
        for sql in statements.iter().map(AsRef::as_ref) {
            echo(sql);
            self.client.batch_execute(sql).await.map_err(describe)?;
            self.print_notices();
        }
        Ok(())
    }

    /// Types a statement that is expected to be refused, and shows how.
    pub async fn show_refused(&mut self, sql: &str) -> Result<(), String> {
        echo(sql);
        let started = Instant::now();
        let answer = self.client.simple_query(sql).await;
        let elapsed = started.elapsed();
        match answer {
            Ok(answer) => print(&answer),
            Err(error) => println!("{}", error.as_db_error().map(told).ok_or_else(|| error.to_string())?),
        }
        print_time(elapsed);
        Ok(())
    }

    /// Whether a query has rows; shows nothing.
    pub async fn finds(&self, sql: &str) -> Result<bool, String> {
        let answer = self.client.simple_query(sql).await.map_err(describe)?;
        Ok(answer.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))))
    }

    fn print_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            println!("{}", told(&notice));
        }
    }
}

/// Reads what the server says until the connection ends.
async fn drive(mut connection: Connection<Socket, NoTlsStream>, notices: UnboundedSender<DbError>) {
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message {
            // Nobody may be there to read it.
            drop(notices.send(notice));
        }
    }
}

/// What somebody would have typed.
pub fn echo(sql: &str) {
    for (number, line) in sql.trim().lines().enumerate() {
        println!("tidemill{} {line}", if number == 0 { "=>" } else { "->" });
    }
}

fn print(answer: &[SimpleQueryMessage]) {
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::ASCII_MARKDOWN);
    let mut are_numbers = Vec::new();
    for message in answer {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                table.set_header(columns.iter().map(|column| column.name()));
                are_numbers = vec![true; columns.len()];
            }
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|i| row.get(i).unwrap_or(""));
                let may_be = |value: &str| value.is_empty() || value.parse::<f64>().is_ok();
                are_numbers.iter_mut().zip(values.clone()).for_each(|(is, value)| *is &= may_be(value));
                table.add_row(values);
            }
            _ => {}
        }
    }
    for (column, _) in table.column_iter_mut().zip(are_numbers).filter(|(_, is_number)| *is_number) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}");
    let rows = table.row_count();
    println!("({rows} {})", if rows == 1 { "row" } else { "rows" });
}

fn print_time(elapsed: Duration) {
    println!("Time: {:.1} ms\n", elapsed.as_secs_f64() * 1e3);
}

/// An error or a notice as psql shows it.
fn told(said: &DbError) -> String {
    let mut text = format!("{}:  {}", said.severity(), said.message());
    for (label, part) in [("DETAIL", said.detail()), ("HINT", said.hint())] {
        if let Some(part) = part {
            text.push_str(&format!("\n{label}:  {part}"));
        }
    }
    text
}

/// An error that ends the demo.
pub fn describe(error: tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(error) => {
            format!("{}{}", error.message(), error.where_().map(|w| format!(" ({w})")).unwrap_or_default())
        }
        None => error.to_string(),
    }
}
