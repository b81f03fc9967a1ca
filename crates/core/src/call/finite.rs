//! Values that do not survive JSON: numbers that it lacks, for which serialisers write `null`, a different value; and
//! values nested too deeply to be read back.

use std::{error, fmt};

use serde::{Serialize, Serializer, ser};

use super::schema::located;
use crate::limits;

/// How many of the keys that lead to a value nested too deeply are named.
const KEYS_SAID: usize = 4;

/// Finds the part of a value that would not survive JSON. Other errors appear when the value is written.
///
/// # Errors
/// Where it is, and what would be valid.
pub fn check<T: Serialize + ?Sized>(value: &T) -> Result<(), String> {
    let (number, mut at) = match value.serialize(Finite { depth: 0 }) {
        Err(Wrong::Found { number, at }) => (number, at),
        Err(Wrong::Other) | Ok(()) => return Ok(()),
    };
    at.reverse();
    if number.is_none() {
        at.truncate(KEYS_SAID);
    }
    let pointer: String = at.iter().map(|key| format!("/{}", key.replace('~', "~0").replace('/', "~1"))).collect();
    let what = match number {
        Some(number) => format!("{number} is not a JSON number; give a finite one, or null where that is allowed"),
        None => format!(
            "it is nested deeper than the {} arrays and objects that can be read again; make it flatter, or a text",
            limits::RECORDED_JSON_DEPTH
        ),
    };
    Err(located(&pointer, &what))
}

#[derive(Debug)]
enum Wrong {
    /// The number, or none if it is too deep; and the keys that lead to it, the last one first.
    Found {
        number: Option<f64>,
        at: Vec<String>,
    },
    Other,
}

impl Wrong {
    fn under(mut self, key: &str) -> Wrong {
        if let Wrong::Found { at, .. } = &mut self {
            at.push(key.to_owned());
        }
        self
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it cannot be written")
    }
}

impl error::Error for Wrong {}

impl ser::Error for Wrong {
    fn custom<T: fmt::Display>(_: T) -> Wrong {
        Wrong::Other
    }
}

type Looked = Result<(), Wrong>;

/// Visits a value, and writes nothing.
#[derive(Clone, Copy)]
struct Finite {
    /// How many arrays and objects the value is in.
    depth: usize,
}

impl Finite {
    /// Inside this many more of them.
    fn inside(self, more: usize) -> Result<Finite, Wrong> {
        let depth = self.depth + more;
        if depth > limits::RECORDED_JSON_DEPTH {
            return Err(Wrong::Found { number: None, at: Vec::new() });
        }
        Ok(Finite { depth })
    }

    /// Inside an array or an object.
    fn place(self) -> Result<Place, Wrong> {
        Ok(Place { looks: self.inside(1)?, variant: None, index: 0, key: String::new() })
    }

    /// Inside the array or object of a variant, which has an object around it.
    fn place_of(self, variant: &'static str) -> Result<Place, Wrong> {
        let within = |wrong: Wrong| wrong.under(variant);
        Ok(Place { variant: Some(variant), ..self.inside(1)?.place().map_err(within)? })
    }
}

/// The current place in a list or an object.
struct Place {
    looks: Finite,
    /// The enum variant that the list or object belongs to.
    variant: Option<&'static str>,
    index: usize,
    key: String,
}

impl Place {
    fn look<T: Serialize + ?Sized>(&self, key: &str, value: &T) -> Looked {
        let inside = |wrong: Wrong| {
            let wrong = wrong.under(key);
            match self.variant {
                Some(variant) => wrong.under(variant),
                None => wrong,
            }
        };
        value.serialize(self.looks).map_err(inside)
    }

    fn next<T: Serialize + ?Sized>(&mut self, value: &T) -> Looked {
        let looked = self.look(&self.index.to_string(), value);
        self.index += 1;
        looked
    }
}

macro_rules! right {
    ($($name:ident($type:ty)),* $(,)?) => {
        $(fn $name(self, _: $type) -> Looked {
            Ok(())
        })*
    };
}

impl Serializer for Finite {
    type Ok = ();
    type Error = Wrong;
    type SerializeSeq = Place;
    type SerializeTuple = Place;
    type SerializeTupleStruct = Place;
    type SerializeTupleVariant = Place;
    type SerializeMap = Place;
    type SerializeStruct = Place;
    type SerializeStructVariant = Place;

    right! {
        serialize_bool(bool), serialize_i8(i8), serialize_i16(i16), serialize_i32(i32), serialize_i64(i64),
        serialize_i128(i128), serialize_u8(u8), serialize_u16(u16), serialize_u32(u32), serialize_u64(u64),
        serialize_u128(u128), serialize_char(char), serialize_str(&str), serialize_bytes(&[u8]),
        serialize_unit_struct(&'static str),
    }

    fn serialize_f32(self, number: f32) -> Looked {
        self.serialize_f64(number.into())
    }
    fn serialize_f64(self, number: f64) -> Looked {
        if number.is_finite() { Ok(()) } else { Err(Wrong::Found { number: Some(number), at: Vec::new() }) }
    }
    fn serialize_none(self) -> Looked {
        Ok(())
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Looked {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Looked {
        Ok(())
    }
    fn serialize_unit_variant(self, _: &'static str, _: u32, _: &'static str) -> Looked {
        Ok(())
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, _: &'static str, value: &T) -> Looked {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Looked {
        value.serialize(self.inside(1)?).map_err(|wrong| wrong.under(variant))
    }
    fn serialize_seq(self, _: Option<usize>) -> Result<Place, Wrong> {
        self.place()
    }
    fn serialize_tuple(self, _: usize) -> Result<Place, Wrong> {
        self.place()
    }
    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Place, Wrong> {
        self.place()
    }
    fn serialize_tuple_variant(self, _: &'static str, _: u32, variant: &'static str, _: usize) -> Result<Place, Wrong> {
        self.place_of(variant)
    }
    fn serialize_map(self, _: Option<usize>) -> Result<Place, Wrong> {
        self.place()
    }
    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Place, Wrong> {
        self.place()
    }
    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Place, Wrong> {
        self.place_of(variant)
    }
}

macro_rules! of_list {
    ($($trait:ident::$name:ident),* $(,)?) => {
        $(impl ser::$trait for Place {
            type Ok = ();
            type Error = Wrong;
            fn $name<T: Serialize + ?Sized>(&mut self, value: &T) -> Looked {
                self.next(value)
            }
            fn end(self) -> Looked {
                Ok(())
            }
        })*
    };
}

of_list! {
    SerializeSeq::serialize_element, SerializeTuple::serialize_element, SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

macro_rules! of_object {
    ($($trait:ident),* $(,)?) => {
        $(impl ser::$trait for Place {
            type Ok = ();
            type Error = Wrong;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, key: &'static str, value: &T) -> Looked {
                self.look(key, value)
            }
            fn end(self) -> Looked {
                Ok(())
            }
        })*
    };
}

of_object! { SerializeStruct, SerializeStructVariant }

impl ser::SerializeMap for Place {
    type Ok = ();
    type Error = Wrong;
    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Looked {
        // An invalid key is reported when it is written.
        let key = serde_json::to_string(key).unwrap_or_default();
        self.key = serde_json::from_str(&key).unwrap_or(key);
        Ok(())
    }
    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Looked {
        self.look(&self.key, value)
    }
    fn end(self) -> Looked {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Serialize)]
    enum Kind {
        Of { price: f32 },
        Pair(f64, f64),
    }

    #[test]
    fn a_number_that_json_does_not_have_is_found_where_it_stands() {
        let map = |value: f64| BTreeMap::from([("a/b", vec![(1.0, None), (2.0, Some(value))])]);
        assert_eq!(check(&map(0.5)), Ok(()));
        assert_eq!(check(&serde_json::json!({ "a": [null, 1.5, "x"] })), Ok(()));
        let said = check(&map(f64::NAN)).expect_err("NaN");
        assert!(said.starts_with("/a~1b/1/1: NaN is not a JSON number"), "{said}");
        let said = check(&Kind::Of { price: f32::NEG_INFINITY }).expect_err("infinite");
        assert!(said.starts_with("/Of/price: -inf is"), "{said}");
        let said = check(&Kind::Pair(0.0, f64::INFINITY)).expect_err("infinite");
        assert!(said.starts_with("/Pair/1: inf is"), "{said}");
        assert!(check(&f64::NAN).expect_err("NaN").starts_with("NaN is"));
    }

    /// A list of nests, or nothing.
    #[derive(Debug, Default, PartialEq, Serialize, serde::Deserialize)]
    enum Nest {
        #[default]
        Empty,
        List(Vec<Nest>),
        Pair(Box<Nest>, u8),
        Field {
            of: Option<Box<Nest>>,
        },
    }

    /// Every accepted value can be read back, whatever it is made of; a value one level deeper cannot.
    #[test]
    fn r9_what_is_nested_too_deep_to_be_read_again_is_found() {
        let around: [fn(Nest) -> Nest; 3] = [
            |nest| Nest::List(vec![nest]),
            |nest| Nest::Pair(Box::new(nest), 1),
            |nest| Nest::Field { of: Some(Box::new(nest)) },
        ];
        for wrap in around {
            let (mut nest, mut refused) = (Nest::Empty, None);
            for _ in 0..100 {
                let text = serde_json::to_string(&nest).expect("JSON");
                let read = serde_json::from_str::<Nest>(&text);
                assert_eq!(check(&nest).is_ok(), read.is_ok(), "{text}");
                refused = check(&nest).err();
                nest = wrap(nest);
            }
            let refused = refused.expect("deeper than it is read");
            assert!(refused.contains("nested deeper than the 127 arrays and objects"), "{refused}");
            assert!(refused.len() < 200, "{refused}");
        }
        // However deep the value is, the search is not.
        let mut deep = serde_json::json!(1);
        for _ in 0..10_000 {
            deep = serde_json::Value::Array(vec![deep]);
        }
        assert!(check(&deep).expect_err("deep").starts_with("/0/0/0/0: it is nested"));
        std::mem::forget(deep);
    }
}
