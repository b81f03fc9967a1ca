//! Statements that are sent together, without waiting for the answer to one before the next is sent: each saves a round trip.

use std::{borrow::Cow, fmt::Write as _, pin::pin};

use futures::{future::maybe_done, poll};
use tokio_postgres::{
    Client, Error, Row, Statement,
    types::{ToSql, Type},
};

use super::connect::{BEGIN, BEGIN_PLANNED, Link};
use countersign_core::number::InterruptionNo;

/// A value of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(Option<i64>),
    Ints(Vec<Option<i64>>),
    Bool(bool),
    Bools(Vec<bool>),
    /// Content.
    Bytes(Option<Vec<u8>>),
    Many(Vec<Option<Vec<u8>>>),
    /// A fixed built-in text.
    Word(&'static str),
    Text(Option<String>),
    Texts(Vec<Option<String>>),
}

impl Value {
    pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Value {
        Value::Ints(values.into_iter().map(Some).collect())
    }

    pub(super) fn many(values: impl IntoIterator<Item: Into<Vec<u8>>>) -> Value {
        Value::Many(values.into_iter().map(|value| Some(value.into())).collect())
    }

    pub(super) fn text(text: impl Into<String>) -> Value {
        Value::Text(Some(text.into()))
    }

    /// The values of a column, each of its type, as one value.
    fn column(of: &Type, values: impl Iterator<Item = Value>) -> Value {
        let values = values.inspect(|value| debug_assert_eq!(value.of_type(), *of, "{value:?}"));
        match *of {
            Type::BOOL => Value::Bools(values.map(|value| matches!(value, Value::Bool(true))).collect()),
            Type::INT8 => Value::Ints(values.map(|value| if let Value::Int(n) = value { n } else { None }).collect()),
            Type::TEXT => Value::Texts(values.map(Value::into_text).collect()),
            _ => Value::Many(values.map(|value| if let Value::Bytes(bytes) = value { bytes } else { None }).collect()),
        }
    }

    fn into_text(self) -> Option<String> {
        match self {
            Value::Word(text) => Some(text.to_owned()),
            Value::Text(text) => text,
            _ => None,
        }
    }

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
            Value::Texts(value) => value,
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
            Value::Texts(_) => Type::TEXT_ARRAY,
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

impl From<InterruptionNo> for Value {
    fn from(value: InterruptionNo) -> Value {
        value.get().into()
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

/// Columns of rows: the name and the type of each.
pub(super) type Columns = &'static [(&'static str, Type)];

/// One statement of several parts about one session or many. The rows of sessions are `s`, each with its `number` and its
/// `id`, which it returns. Nothing happens to a session that is not in `s`. New sessions are given as `n`, known ones as `w`.
#[derive(Clone, Debug)]
pub(super) struct Joined {
    sql: String,
    values: Vec<Value>,
    parts: usize,
    many: bool,
}

/// Limits how long a statement about several sessions waits for the lock of a row; it is evaluated with the given rows, before
/// any lock. If another transaction holds a row for longer, each append is carried out alone, so that only that session waits.
const BRIEFLY: &str = " WHERE (SELECT set_config('lock_timeout', '50ms', true)) IS NOT NULL";

impl Joined {
    /// About one session, or `many`.
    pub(super) fn new(many: bool) -> Joined {
        Joined { sql: String::new(), values: Vec::new(), parts: 0, many }
    }

    pub(super) fn is_of_many(&self) -> bool {
        self.many
    }

    /// Adds rows under a name, each of which has a value for each column.
    pub(super) fn given(&mut self, name: &str, columns: Columns, rows: Vec<Vec<Value>>) {
        let rows = self.rows(columns, rows, self.many);
        let briefly = if self.many { BRIEFLY } else { "" };
        self.named(name, &format!("SELECT * FROM {rows}{briefly}"));
    }

    /// Adds a part of this name.
    pub(super) fn named(&mut self, name: &str, sql: &str) {
        let begin = if self.sql.is_empty() { "WITH" } else { "," };
        // Writing to a string never fails.
        let _ = write!(self.sql, "{begin} {name} AS ({sql})");
    }

    /// Rows as a part can read them, under the name `r`: one as constants, which cost nothing, `many` as arrays.
    pub(super) fn rows(&mut self, columns: Columns, rows: Vec<Vec<Value>>, many: bool) -> String {
        let many = many || rows.len() != 1;
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()), "{columns:?}");
        let (mut sql, mut names) = (String::from(if many { "unnest(" } else { "(SELECT " }), String::new());
        let mut rows: Vec<_> = rows.into_iter().map(Vec::into_iter).collect();
        for (i, (name, of)) in columns.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let column = rows.iter_mut().filter_map(Iterator::next);
            let place = self.values.len() + 1;
            if many {
                let _ = (write!(sql, "{comma}${place}::{}[]", of.name()), write!(names, "{comma}{name}"));
                self.values.push(Value::column(of, column));
            } else {
                let _ = write!(sql, "{comma}${place}::{} AS {name}", of.name());
                self.values.extend(column.last());
            }
        }
        sql + &if many { format!(") AS r ({names})") } else { ") AS r".to_owned() }
    }

    /// Adds a part, in which `?` stands for rows of which each row that it is about has at most one.
    pub(super) fn part(&mut self, sql: &'static str, columns: Columns, rows: Vec<Vec<Value>>) {
        if !rows.is_empty() {
            let many = self.many;
            self.add(sql, columns, rows, many);
        }
    }

    /// The same for what is common: a statement about many always has it, so that there are few distinct ones.
    pub(super) fn common(&mut self, sql: &'static str, columns: Columns, rows: Vec<Vec<Value>>) {
        let many = self.many;
        if many || !rows.is_empty() {
            self.add(sql, columns, rows, many);
        }
    }

    /// The same for what is common, and of which each row that it is about has any number.
    pub(super) fn list(&mut self, sql: &'static str, columns: Columns, rows: Vec<Vec<Value>>) {
        if self.many || !rows.is_empty() {
            self.add(sql, columns, rows, true);
        }
    }

    fn add(&mut self, sql: &'static str, columns: Columns, rows: Vec<Vec<Value>>, many: bool) {
        debug_assert_eq!(sql.matches('?').count(), 1, "{sql}");
        self.parts += 1;
        let rows = self.rows(columns, rows, many);
        self.named(&format!("p{}", self.parts), &sql.replacen('?', &rows, 1));
    }
}

/// Statements to be sent together, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight(Vec<(Cow<'static, str>, Vec<Value>)>);

/// The answers to statements that were sent together.
pub(super) struct Answers {
    /// In order. The last one may belong to a statement that was not sent, and then later ones were not sent either.
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

    /// Sends all, unless one cannot be written because a value is too large for the protocol. After an `Err` nothing
    /// was sent. Through a pooler it must be part of an open transaction.
    pub(super) async fn send(self, on: &Link) -> Result<Answers, Error> {
        let mut ready = Vec::with_capacity(self.0.len());
        for (sql, values) in &self.0 {
            ready.push((Text::of(on, sql).await?, values));
        }
        let mut all_sent = true;
        // A connection that ends meanwhile may have sent what it took.
        let was_open = !on.is_closed();
        let mut sent: Vec<_> =
            ready.iter().map(|(text, values)| Box::pin(maybe_done(answer(on, text, values)))).collect();
        // One poll of each sends it: in this order, whatever the order of the answers.
        for i in 0..sent.len() {
            let _ = poll!(sent[i].as_mut());
            let unwritten = |answer: &mut Result<Vec<Row>, Error>| {
                answer.as_ref().is_err_and(|e| e.as_db_error().is_none() && !(was_open && e.is_closed()))
            };
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

/// A statement that is ready to be sent.
enum Text<'a> {
    /// Prepared: the database knows it by a name, in this session.
    Prepared(Statement),
    /// It is sent with its values: a pooler may give the next transaction a session without our prepared statements.
    Unnamed(&'a str),
}

impl<'a> Text<'a> {
    async fn of(on: &Link, sql: &'a str) -> Result<Text<'a>, Error> {
        Ok(if on.pooled { Text::Unnamed(sql) } else { Text::Prepared(on.prepare_cached(sql).await?) })
    }
}

async fn answer(on: &Link, text: &Text<'_>, values: &[Value]) -> Result<Vec<Row>, Error> {
    match text {
        Text::Unnamed(sql) => typed(on, sql, values).await,
        Text::Prepared(statement) => {
            let values: Vec<_> = values.iter().map(Value::as_sql).collect();
            on.query(statement, &values).await
        }
    }
}

/// Runs one statement of an open transaction, or one that begins or ends it.
pub(super) async fn within(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    answer(on, &Text::of(on, sql).await?, &values).await
}

/// Runs one statement, in a separate transaction.
pub(super) async fn ask(on: &Link, sql: &'static str, values: Vec<Value>) -> Result<Vec<Row>, Error> {
    if on.pooled { alone(on, true, sql, &values).await } else { within(on, sql, values).await }
}

/// The same for a statement that is planned for its values, and not kept.
pub(super) async fn ask_once(on: &Link, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    alone(on, on.pooled, sql, values).await
}

/// Runs one statement that is sent with its values.
pub(super) async fn typed(client: &Client, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    let values: Vec<_> = values.iter().map(|value| (value.as_sql(), value.of_type())).collect();
    client.query_typed(sql, &values).await
}

/// The same in a separate transaction, which begins with its settings: all of it is sent together. The statement may
/// also be committed on its own, so the BEGIN is not waited for.
pub(super) async fn alone(client: &Client, pooled: bool, sql: &str, values: &[Value]) -> Result<Vec<Row>, Error> {
    let begin = if pooled { BEGIN } else { BEGIN_PLANNED };
    let mut begun = pin!(maybe_done(client.batch_execute(begin)));
    let mut asked = pin!(maybe_done(typed(client, sql, values)));
    let mut ended = pin!(maybe_done(client.batch_execute("COMMIT")));
    // One poll of each sends it, in this order.
    let _ = (poll!(begun.as_mut()), poll!(asked.as_mut()), poll!(ended.as_mut()));
    // All are waited for, so that the connection is returned with nothing in progress.
    begun.as_mut().await;
    asked.as_mut().await;
    ended.as_mut().await;
    begun.take_output().transpose()?;
    let rows = asked.take_output().transpose()?;
    ended.take_output().transpose()?;
    Ok(rows.unwrap_or_default())
}
