//! Statements that are sent together, without waiting for the answer to one before the next is sent: each saves a round trip.

use std::{borrow::Cow, fmt::Write as _};

use deadpool_postgres::Object;
use futures::{future::maybe_done, poll};
use tokio_postgres::{
    Error, Row, Statement,
    types::{ToSql, Type},
};

/// A value of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(Option<i64>),
    Ints(Vec<i64>),
    Bool(bool),
    Bools(Vec<bool>),
    /// What somebody has written.
    Bytes(Option<Vec<u8>>),
    Many(Vec<Vec<u8>>),
    /// A word of ours.
    Word(&'static str),
    Text(String),
}

impl Value {
    pub(super) fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Value::Int(value) => value,
            Value::Ints(value) => value,
            Value::Bool(value) => value,
            Value::Bools(value) => value,
            Value::Bytes(value) => value,
            Value::Many(value) => value,
            Value::Word(value) => value,
            Value::Text(value) => value,
        }
    }

    pub(super) fn of_type(&self) -> Type {
        match self {
            Value::Int(_) => Type::INT8,
            Value::Ints(_) => Type::INT8_ARRAY,
            Value::Bool(_) => Type::BOOL,
            Value::Bools(_) => Type::BOOL_ARRAY,
            Value::Bytes(_) => Type::BYTEA,
            Value::Many(_) => Type::BYTEA_ARRAY,
            Value::Word(_) | Value::Text(_) => Type::TEXT,
        }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::Int(Some(value))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Value {
        Value::Int(value)
    }
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Int(Some(value.into()))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Value {
        Value::Bytes(Some(value.into()))
    }
}

impl From<Option<&str>> for Value {
    fn from(value: Option<&str>) -> Value {
        Value::Bytes(value.map(Into::into))
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Value {
        Value::Bytes(Some(value))
    }
}

/// One statement of several parts, which see the row of a session as `s`. It gives that row.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    sql: String,
    values: Vec<Value>,
    parts: usize,
}

impl Joined {
    /// `session` gives the row, with the values that it names by their numbers. Nothing happens if it gives none.
    pub(super) fn of(session: &'static str, values: Vec<Value>) -> Joined {
        Joined { sql: format!("WITH s AS ({session})"), values, parts: 0 }
    }

    /// Adds a part, in which each value in turn is a `?`.
    pub(super) fn part(&mut self, sql: &'static str, values: Vec<Value>) {
        debug_assert_eq!(sql.matches('?').count(), values.len(), "{sql}");
        self.parts += 1;
        let mut pieces = sql.split('?');
        let first = pieces.next().unwrap_or_default();
        // Writing to a string never fails.
        let _ = write!(self.sql, ", p{} AS ({first}", self.parts);
        for (value, piece) in values.into_iter().zip(pieces) {
            let _ = write!(self.sql, "${}::{}{piece}", self.values.len() + 1, value.of_type().name());
            self.values.push(value);
        }
        self.sql.push(')');
    }
}

/// Statements to be sent together, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight(Vec<(Cow<'static, str>, Vec<Value>)>);

/// What came of statements that were sent together.
pub(super) struct Answers {
    /// In order. The last one may be of a statement that was not sent, and then those behind it were not either.
    pub(super) rows: Vec<Result<Vec<Row>, Error>>,
    pub(super) all_sent: bool,
}

impl Flight {
    pub(super) fn of(statement: Joined) -> Flight {
        let mut flight = Flight::default();
        flight.push(statement);
        flight
    }

    pub(super) fn add(&mut self, sql: &'static str, values: Vec<Value>) {
        self.0.push((Cow::Borrowed(sql), values));
    }

    pub(super) fn push(&mut self, Joined { mut sql, values, .. }: Joined) {
        sql.push_str(" SELECT * FROM s");
        self.0.push((Cow::Owned(sql), values));
    }

    pub(super) fn with(mut self, sql: &'static str, values: Vec<Value>) -> Flight {
        self.add(sql, values);
        self
    }

    /// Sends all, unless one cannot be written, since a value is too large for the protocol. After an `Err` nothing was sent.
    pub(super) async fn send(self, client: &Object) -> Result<Answers, Error> {
        let mut prepared = Vec::with_capacity(self.0.len());
        for (sql, values) in self.0 {
            prepared.push((client.prepare_cached(&sql).await?, values));
        }
        let mut all_sent = true;
        let mut sent: Vec<_> = prepared
            .iter()
            .map(|(statement, values)| Box::pin(maybe_done(answer(client, statement, values))))
            .collect();
        // Polled once, each is sent: in this order, whatever the answers' is.
        for i in 0..sent.len() {
            let _ = poll!(sent[i].as_mut());
            let unwritten =
                |answer: &mut Result<Vec<Row>, Error>| answer.as_ref().is_err_and(|e| e.as_db_error().is_none());
            if sent[i].as_mut().output_mut().is_some_and(unwritten) {
                sent.truncate(i + 1);
                all_sent = false;
                break;
            }
        }
        let mut rows = Vec::with_capacity(sent.len());
        for statement in &mut sent {
            statement.as_mut().await;
            rows.extend(statement.as_mut().take_output());
        }
        Ok(Answers { rows, all_sent })
    }
}

async fn answer(client: &Object, statement: &Statement, values: &[Value]) -> Result<Vec<Row>, Error> {
    let values: Vec<_> = values.iter().map(Value::as_sql).collect();
    client.query(statement, &values).await
}

/// The answer to one prepared statement.
pub(super) async fn ask(client: &Object, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    answer(client, &client.prepare_cached(sql).await?, &values).await
}

/// The answer to one statement that is planned for its values, and not kept.
pub(super) async fn ask_once(client: &Object, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    let values: Vec<_> = values.iter().map(|value| (value.as_sql(), value.of_type())).collect();
    client.query_typed(sql, &values).await
}
