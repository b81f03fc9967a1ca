//! The demo's tools: constant prices, and an append-only order book on disk.

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Seek as _, SeekFrom, Write as _},
    path::PathBuf,
};

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use super::Language;
use crate::Outcome;

/// Arguments of `demo-tool`.
#[derive(Args)]
pub(crate) struct DemoTool {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Subcommand)]
enum Tool {
    /// Prints the price of a share
    GetPrice,
    /// Writes an order into the order book
    ExecuteTrade {
        /// The language of the result
        #[arg(long, value_enum, default_value = "en")]
        locale: Language,
        /// The order book
        #[arg(long, default_value = "orders.jsonl")]
        orders: PathBuf,
    },
}

#[derive(Deserialize)]
struct PriceOf {
    symbol: String,
}

#[derive(Deserialize)]
struct Trade {
    symbol: String,
    quantity: u64,
    side: Side,
    price: u64,
}

/// Whether it buys or sells.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Buy,
    Sell,
}

/// A line of the order book.
#[derive(Deserialize, Serialize)]
struct Order {
    id: usize,
    at: String,
    symbol: String,
    side: Side,
    quantity: u64,
    price: u64,
    /// The key of the call that made it: the same call makes no second order.
    key: String,
}

/// Runs a tool: arguments on standard input, the result on standard output.
pub(crate) fn run(tool: &DemoTool) -> Outcome {
    let mut input = String::new();
    std::io::stdin().read_to_string(&mut input).map_err(|error| format!("the arguments cannot be read: {error}"))?;
    match &tool.tool {
        Tool::GetPrice => {
            let PriceOf { symbol } = arguments(&input)?;
            answer(&format!("{symbol}: {} VND", grouped(price(&symbol))))
        }
        Tool::ExecuteTrade { locale, orders } => {
            let key = std::env::var("COUNTERSIGN_IDEMPOTENCY_KEY").unwrap_or_default();
            let order = execute(orders, arguments(&input)?, key)?;
            answer(&placed(&order, *locale))
        }
    }
}

/// The result of an order, which the scripts of the demo read.
fn placed(order: &Order, locale: Language) -> String {
    let Order { id, symbol, side, quantity, price, .. } = order;
    let price = grouped(*price);
    let side = locale.pick(match side {
        Side::Buy => ["buy", "mua", "买入"],
        Side::Sell => ["sell", "bán", "卖出"],
    });
    match locale {
        Language::En => format!("Order {id}: {side} {quantity} {symbol} at {price} VND"),
        Language::Vi => format!("Lệnh {id}: {side} {quantity} {symbol} với giá {price} VND"),
        Language::Zh => format!("订单 {id}：{side} {quantity} 股 {symbol}，价格 {price} VND"),
    }
}

/// The result is the text itself, without a line end.
fn answer(text: &str) -> Outcome {
    std::io::stdout().write_all(text.as_bytes()).map_err(|error| format!("the result cannot be written: {error}"))?;
    Ok(())
}

fn arguments<T: for<'de> Deserialize<'de>>(input: &str) -> Result<T, String> {
    serde_json::from_str(input).map_err(|error| format!("the arguments are wrong: {error}"))
}

fn price(symbol: &str) -> u64 {
    match symbol {
        "VNM" => 82_000,
        "FPT" => 118_500,
        "HPG" => 27_300,
        "VCB" => 91_200,
        other => other.bytes().fold(10_000, |sum, byte| sum + u64::from(byte) * 100),
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Writes the order, once for each key: it is on disk when this returns.
fn execute(orders: &PathBuf, trade: Trade, key: String) -> Result<Order, String> {
    let failed = |error: std::io::Error| format!("the order book {}: {error}", orders.display());
    let mut book = OpenOptions::new().read(true).append(true).create(true).open(orders).map_err(failed)?;
    book.lock().map_err(failed)?;
    let known = read(&mut book).map_err(failed)?;
    let id = known.len() + 1;
    if let Some(order) = known.into_iter().find(|order| !key.is_empty() && order.key == key) {
        return Ok(order);
    }
    let Trade { symbol, quantity, side, price } = trade;
    let order = Order { id, at: format!("{:.3}", jiff::Timestamp::now()), symbol, side, quantity, price, key };
    let mut line = serde_json::to_string(&order).map_err(|error| error.to_string())?;
    line.push('\n');
    book.write_all(line.as_bytes()).and_then(|()| book.sync_all()).map_err(failed)?;
    Ok(order)
}

fn read(book: &mut File) -> std::io::Result<Vec<Order>> {
    let mut text = String::new();
    book.seek(SeekFrom::Start(0))?;
    book.read_to_string(&mut text)?;
    // A line cut off by a crash is not an order.
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}
