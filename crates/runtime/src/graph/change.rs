//! Changes of single fields: the building blocks of the updates that the derive [`GraphState`](super::GraphState)
//! generates.

use std::{collections::HashMap, fmt, iter, marker::PhantomData, time::Duration};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::{Identified, MergeError};

/// No change, for a field that is missing from the JSON.
pub fn unchanged<C: Default>() -> C {
    C::default()
}

/// The change of a field without a reducer: its new value, if it has one.
#[derive(Clone)]
pub struct LastValue<T>(Option<T>);

impl<T> Default for LastValue<T> {
    fn default() -> LastValue<T> {
        LastValue(None)
    }
}

impl<T> LastValue<T> {
    /// Whether the field stays as it is.
    pub fn is_unchanged(&self) -> bool {
        self.0.is_none()
    }

    /// Sets the field.
    pub fn set(&mut self, value: T) {
        self.0 = Some(value);
    }

    /// Merges the next task's change.
    ///
    /// # Errors
    /// Both set the field.
    pub fn join(&mut self, field: &'static str, next: LastValue<T>) -> Result<(), MergeError> {
        match (&self.0, next.0) {
            (_, None) => {}
            (None, Some(value)) => self.0 = Some(value),
            (Some(_), Some(_)) => {
                let problem = "two nodes of one step have set it; give it a reducer or set it in one of them";
                return Err(MergeError { field, problem: problem.to_owned() });
            }
        }
        Ok(())
    }

    /// Changes the field.
    pub fn apply(self, field: &mut T) {
        if let Some(value) = self.0 {
            *field = value;
        }
    }
}

impl<T: Serialize> Serialize for LastValue<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// A field that is present has a value, even `null`: a field of type `Option` can be cleared.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for LastValue<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LastValue<T>, D::Error> {
        T::deserialize(deserializer).map(|value| LastValue(Some(value)))
    }
}

/// The changes of a field with a reducer.
#[derive(Clone)]
pub struct Reduced<T> {
    replace: Option<T>,
    add: Vec<T>,
}

impl<T> Default for Reduced<T> {
    fn default() -> Reduced<T> {
        Reduced { replace: None, add: Vec::new() }
    }
}

impl<T> Reduced<T> {
    /// Whether the field stays as it is.
    pub fn is_unchanged(&self) -> bool {
        self.replace.is_none() && self.add.is_empty()
    }

    /// Passes a value to the reducer.
    pub fn add(&mut self, value: T) {
        self.add.push(value);
    }

    /// Adds items, after those already added by this update.
    pub fn extend<I>(&mut self, items: impl IntoIterator<Item = I>)
    where
        T: Extend<I> + FromIterator<I>,
    {
        match self.add.last_mut() {
            Some(last) => last.extend(items),
            None => self.add.push(items.into_iter().collect()),
        }
    }

    /// Replaces the field. Earlier additions of this update are discarded.
    pub fn replace(&mut self, value: T) {
        self.replace = Some(value);
        self.add.clear();
    }

    /// Merges the next task's change.
    ///
    /// # Errors
    /// Both replace the field.
    pub fn join(&mut self, field: &'static str, next: Reduced<T>) -> Result<(), MergeError> {
        join_replaced(field, &mut self.replace, next.replace)?;
        self.add.extend(next.add);
        Ok(())
    }

    /// Applies the change: replaces the field, then adds what all tasks add.
    ///
    /// # Errors
    /// The reducer failed.
    pub fn apply(
        self,
        name: &'static str,
        field: &mut T,
        mut reduce: impl FnMut(&mut T, T) -> Result<(), String>,
    ) -> Result<(), MergeError> {
        if let Some(value) = self.replace {
            *field = value;
        }
        self.add
            .into_iter()
            .try_for_each(|more| reduce(field, more))
            .map_err(|problem| MergeError { field: name, problem })
    }
}

fn join_replaced<T>(field: &'static str, all: &mut Option<T>, next: Option<T>) -> Result<(), MergeError> {
    if all.is_some() && next.is_some() {
        let problem = "two nodes of one step replace it; replace it in one of them and add to it in the others";
        return Err(MergeError { field, problem: problem.to_owned() });
    }
    *all = all.take().or(next);
    Ok(())
}

/// The changes of a list whose items have ids.
#[derive(Clone)]
pub struct ById<T> {
    replace: Option<T>,
    then: Vec<Then<T>>,
}

#[derive(Clone)]
enum Then<T> {
    Remove(Vec<String>),
    Add(T),
}

impl<T> Default for ById<T> {
    fn default() -> ById<T> {
        ById { replace: None, then: Vec::new() }
    }
}

impl<T> ById<T> {
    /// Whether the field stays as it is.
    pub fn is_unchanged(&self) -> bool {
        self.replace.is_none() && self.then.is_empty()
    }

    /// Adds items.
    pub fn extend<I>(&mut self, items: impl IntoIterator<Item = I>)
    where
        T: Extend<I> + FromIterator<I>,
    {
        match self.then.last_mut() {
            Some(Then::Add(last)) => last.extend(items),
            _ => self.then.push(Then::Add(items.into_iter().collect())),
        }
    }

    /// Removes the items with these ids.
    pub fn remove(&mut self, ids: impl IntoIterator<Item = impl Into<String>>) {
        let ids = ids.into_iter().map(Into::into);
        match self.then.last_mut() {
            Some(Then::Remove(last)) => last.extend(ids),
            _ => self.then.push(Then::Remove(ids.collect())),
        }
    }

    /// Replaces the field. Earlier changes of this update are discarded.
    pub fn replace(&mut self, value: T) {
        self.replace = Some(value);
        self.then.clear();
    }

    /// Merges the next task's change.
    ///
    /// # Errors
    /// Both replace the field.
    pub fn join(&mut self, field: &'static str, next: ById<T>) -> Result<(), MergeError> {
        join_replaced(field, &mut self.replace, next.replace)?;
        self.then.extend(next.then);
        Ok(())
    }
}

impl<I> ById<Vec<I>> {
    /// Applies the change: replaces the field, then applies the changes of all tasks in order. Several tasks may
    /// remove the same item, or replace it with all the others.
    ///
    /// # Errors
    /// An item has no id, or an item to remove did not exist.
    pub fn apply(self, name: &'static str, field: &mut Vec<I>) -> Result<(), MergeError>
    where
        I: Identified,
    {
        let apply = || -> Result<(), String> {
            // Removing an item that another task has removed or replaced is not an error.
            let mut removed = Vec::new();
            if let Some(items) = self.replace {
                removed.extend(field.drain(..).map(|item| item.id().to_owned()));
                put(field, items)?;
            }
            for then in self.then {
                match then {
                    Then::Add(items) => put(field, items)?,
                    Then::Remove(ids) => ids.into_iter().try_for_each(|id| {
                        let before = field.len();
                        field.retain(|item| item.id() != id);
                        if field.len() == before && !removed.contains(&id) {
                            return Err(format!("there is no item with the id {id:?}, which is to be removed"));
                        }
                        removed.push(id);
                        Ok(())
                    })?,
                }
            }
            Ok(())
        };
        apply().map_err(|problem| MergeError { field: name, problem })
    }
}

/// Up to this many items are looked up by linear search; beyond it an index pays off.
const FEW: usize = 8;

/// Replaces the items with the same ids, and appends the others.
fn put<I: Identified>(list: &mut Vec<I>, items: Vec<I>) -> Result<(), String> {
    let mut places: Option<HashMap<String, usize>> = None;
    if items.len() > FEW {
        places = Some(list.iter().enumerate().map(|(at, item)| (item.id().to_owned(), at)).collect());
    }
    for item in items {
        if item.id().is_empty() {
            return Err("an item has an empty id".to_owned());
        }
        let at = match &mut places {
            Some(places) => *places.entry(item.id().to_owned()).or_insert(list.len()),
            None => list.iter().rposition(|other| other.id() == item.id()).unwrap_or(list.len()),
        };
        match list.get_mut(at) {
            Some(place) => *place = item,
            None => list.push(item),
        }
    }
    Ok(())
}

/// The reducers `append` and `merge`.
///
/// # Errors
/// None.
pub fn extend<T: IntoIterator + Extend<T::Item>>(value: &mut T, more: T) -> Result<(), String> {
    value.extend(more);
    Ok(())
}

/// The reducer `add`.
///
/// # Errors
/// The type cannot hold the sum.
pub fn add<T: Sum>(value: &mut T, more: T) -> Result<(), String> {
    *value = value.plus(more).ok_or("the sum is more than its type can hold")?;
    Ok(())
}

/// The reducer `max`.
///
/// # Errors
/// None.
pub fn max<T: PartialOrd>(value: &mut T, other: T) -> Result<(), String> {
    if other > *value {
        *value = other;
    }
    Ok(())
}

/// The reducer `min`.
///
/// # Errors
/// None.
pub fn min<T: PartialOrd>(value: &mut T, other: T) -> Result<(), String> {
    if other < *value {
        *value = other;
    }
    Ok(())
}

/// Types whose addition reports overflow.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be added up by `#[graph(add)]`",
    label = "no integer, float or `Duration`",
    note = "a function of your own adds up anything: `#[graph(reduce = path)]`"
)]
pub trait Sum: Copy {
    /// The sum, if the type can represent it.
    fn plus(self, more: Self) -> Option<Self>;
}

macro_rules! sums {
    ($($exact:ty),*; $($float:ty),*) => {
        $(impl Sum for $exact {
            fn plus(self, more: $exact) -> Option<$exact> {
                self.checked_add(more)
            }
        })*
        $(impl Sum for $float {
            // Infinity and NaN cannot be written as JSON.
            fn plus(self, more: $float) -> Option<$float> {
                Some(self + more).filter(|sum| sum.is_finite())
            }
        })*
    };
}
sums!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, Duration; f32, f64);

/// Formats an update as its JSON in journals.
///
/// # Errors
/// The formatter's.
pub fn show(name: &str, update: &impl Serialize, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match serde_json::to_string(update) {
        Ok(json) => write!(formatter, "{name} {json}"),
        Err(error) => write!(formatter, "{name} that cannot be serialised as JSON: {error}"),
    }
}

/// Whether two updates are the same JSON.
pub fn same<U: Serialize>(one: &U, other: &U) -> bool {
    match (serde_json::to_value(one), serde_json::to_value(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The serialised form of a change: the fields of one object apply in the order of this struct.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "T: Deserialize<'de>"))]
struct Change<T> {
    #[serde(skip_serializing_if = "LastValue::is_unchanged")]
    replace: LastValue<T>,
    #[serde(skip_serializing_if = "LastValue::is_unchanged")]
    add: LastValue<T>,
}

/// The same, with removal of items.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, bound(deserialize = "T: Deserialize<'de>"))]
struct ChangeById<T> {
    #[serde(skip_serializing_if = "LastValue::is_unchanged")]
    replace: LastValue<T>,
    #[serde(skip_serializing_if = "LastValue::is_unchanged")]
    remove: LastValue<Vec<String>>,
    #[serde(skip_serializing_if = "LastValue::is_unchanged")]
    add: LastValue<T>,
}

impl<T> Default for Change<T> {
    fn default() -> Change<T> {
        Change { replace: LastValue(None), add: LastValue(None) }
    }
}

impl<T> Default for ChangeById<T> {
    fn default() -> ChangeById<T> {
        ChangeById { replace: LastValue(None), remove: LastValue(None), add: LastValue(None) }
    }
}

/// The serialised form of a change, which must not be empty.
trait Says {
    /// The names of its fields.
    const FIELDS: &'static str;

    /// Whether any field is set.
    fn anything(&self) -> bool;
}

impl<T> Says for Change<T> {
    const FIELDS: &'static str = "`add` or `replace`";

    fn anything(&self) -> bool {
        !(self.replace.is_unchanged() && self.add.is_unchanged())
    }
}

impl<T> Says for ChangeById<T> {
    const FIELDS: &'static str = "`add`, `remove` or `replace`";

    fn anything(&self) -> bool {
        !(self.replace.is_unchanged() && self.remove.is_unchanged() && self.add.is_unchanged())
    }
}

impl<T: Serialize> Serialize for Reduced<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut changes = Vec::new();
        let mut adds = self.add.iter();
        if let Some(replace) = &self.replace {
            changes.push(Change { replace: LastValue(Some(replace)), add: LastValue(adds.next()) });
        }
        changes.extend(adds.map(|add| Change { add: LastValue(Some(add)), ..Change::default() }));
        write(&changes, serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Reduced<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Reduced<T>, D::Error> {
        let mut changes = Reduced::default();
        for Change { replace, add } in read(deserializer)? {
            if let Some(value) = replace.0 {
                changes.replace(value);
            }
            changes.add.extend(add.0);
        }
        Ok(changes)
    }
}

impl<T: Serialize> Serialize for ById<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut changes = vec![ChangeById { replace: LastValue(self.replace.as_ref()), ..ChangeById::default() }];
        for then in &self.then {
            // Combined into one object as far as its order allows.
            let fits = changes.last().is_some_and(|last| match then {
                Then::Remove(_) => last.remove.is_unchanged() && last.add.is_unchanged(),
                Then::Add(_) => last.add.is_unchanged(),
            });
            if !fits {
                changes.push(ChangeById::default());
            }
            if let Some(last) = changes.last_mut() {
                match then {
                    Then::Remove(ids) => last.remove.set(ids.clone()),
                    Then::Add(items) => last.add.set(items),
                }
            }
        }
        write(&changes, serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ById<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ById<T>, D::Error> {
        let mut changes = ById::default();
        for ChangeById { replace, remove, add } in read(deserializer)? {
            if let Some(value) = replace.0 {
                changes.replace(value);
            }
            changes.then.extend(remove.0.map(Then::Remove));
            changes.then.extend(add.0.map(Then::Add));
        }
        Ok(changes)
    }
}

/// Writes one change as an object, several as a list.
fn write<C: Serialize, S: Serializer>(changes: &[C], serializer: S) -> Result<S::Ok, S::Error> {
    match changes {
        [one] => one.serialize(serializer),
        many => many.serialize(serializer),
    }
}

fn read<'de, C: Deserialize<'de> + Says, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<C>, D::Error> {
    struct OneOrMore<C>(PhantomData<C>);

    impl<'de, C: Deserialize<'de> + Says> Visitor<'de> for OneOrMore<C> {
        type Value = Vec<C>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "an object with {}, or a list of such objects", C::FIELDS)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Vec<C>, A::Error> {
            C::deserialize(MapAccessDeserializer::new(map)).map(|change| vec![change])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<C>, A::Error> {
            iter::from_fn(|| list.next_element().transpose()).collect()
        }
    }

    let changes = deserializer.deserialize_any(OneOrMore(PhantomData))?;
    if changes.is_empty() || !changes.iter().all(C::anything) {
        return Err(de::Error::custom(format!("a change says nothing; it needs {}", C::FIELDS)));
    }
    Ok(changes)
}
