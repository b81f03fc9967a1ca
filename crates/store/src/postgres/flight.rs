//! Statements that are sent together, without waiting for the answer to one before the next is sent: each saves a round trip.

use std::pin::pin;

use futures::{future::maybe_done, poll};
use tokio_postgres::{
    Client, Error, Row, Statement,
    types::{ToSql, Type},
};

use super::connect::{BEGIN, Link};

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

/// Statements to be sent together, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight(Vec<(&'static str, Vec<Value>)>);

impl Flight {
    pub(super) fn add(&mut self, sql: &'static str, values: Vec<Value>) {
        self.0.push((sql, values));
    }

    pub(super) fn with(mut self, sql: &'static str, values: Vec<Value>) -> Flight {
        self.add(sql, values);
        self
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Sends all, and gives the answers in order. Outside of these `Err` nothing was sent. A statement that cannot be
    /// written, since a value is too large for the protocol, is the last that has an answer: nothing behind it is sent.
    /// It belongs to a transaction that has begun.
    pub(super) async fn send(self, on: &Link) -> Result<Vec<Result<Vec<Row>, Error>>, Error> {
        let mut ready = Vec::with_capacity(self.0.len());
        for (sql, values) in self.0 {
            ready.push((Text::of(on, sql).await?, values));
        }
        let mut sent: Vec<_> =
            ready.iter().map(|(text, values)| Box::pin(maybe_done(answer(on, text, values)))).collect();
        // Polled once, each is sent: in this order, whatever the answers' is.
        for i in 0..sent.len() {
            let _ = poll!(sent[i].as_mut());
            let unwritten =
                |answer: &mut Result<Vec<Row>, Error>| answer.as_ref().is_err_and(|e| e.as_db_error().is_none());
            if sent[i].as_mut().output_mut().is_some_and(unwritten) {
                sent.truncate(i + 1);
                break;
            }
        }
        let mut answers = Vec::with_capacity(sent.len());
        for statement in &mut sent {
            statement.as_mut().await;
            answers.extend(statement.as_mut().take_output());
        }
        Ok(answers)
    }
}

/// A statement that is ready to be sent.
enum Text {
    /// The database knows it by a name, in this session.
    Prepared(Statement),
    /// It is sent with its values: a pooler may give the next transaction a session that knows no name of ours.
    Unnamed(&'static str),
}

impl Text {
    async fn of(on: &Link, sql: &'static str) -> Result<Text, Error> {
        Ok(if on.pooled { Text::Unnamed(sql) } else { Text::Prepared(on.prepare_cached(sql).await?) })
    }
}

async fn answer(on: &Link, text: &Text, values: &[Value]) -> Result<Vec<Row>, Error> {
    match text {
        Text::Unnamed(sql) => typed(on, sql, values).await,
        Text::Prepared(statement) => {
            let values: Vec<_> = values.iter().map(Value::as_sql).collect();
            on.query(statement, &values).await
        }
    }
}

/// The answer to one statement of a transaction that has begun, or to one that begins or ends it.
pub(super) async fn within(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    answer(on, &Text::of(on, sql).await?, &values).await
}

/// The answer to one statement, in a transaction of its own.
pub(super) async fn ask(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    if on.pooled { alone(on, true, sql, &values).await } else { within(on, sql, values).await }
}

/// The same for a statement that is planned for its values, and not kept.
pub(super) async fn ask_once(on: &Link, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    alone(on, on.pooled, sql, values).await
}

/// The answer to one statement that is sent with its values.
pub(super) async fn typed(client: &Client, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    let values: Vec<_> = values.iter().map(|value| (value.as_sql(), value.of_type())).collect();
    client.query_typed(sql, &values).await
}

/// The same in a transaction of its own. One through a pooler begins with its settings: all of it is sent together. The
/// statement is one that may be committed by itself, so its transaction is not waited for.
pub(super) async fn alone(client: &Client, pooled: bool, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    if !pooled {
        return typed(client, sql, values).await;
    }
    let mut begun = pin!(maybe_done(client.batch_execute(BEGIN)));
    let mut asked = pin!(maybe_done(typed(client, sql, values)));
    let mut ended = pin!(maybe_done(client.batch_execute("COMMIT")));
    // Polled once, each is sent, in this order.
    let _ = (poll!(begun.as_mut()), poll!(asked.as_mut()), poll!(ended.as_mut()));
    // All are waited for: the connection is given back with nothing under way.
    begun.as_mut().await;
    asked.as_mut().await;
    ended.as_mut().await;
    begun.take_output().transpose()?;
    let rows = asked.take_output().transpose()?;
    ended.take_output().transpose()?;
    Ok(rows.unwrap_or_default())
}
