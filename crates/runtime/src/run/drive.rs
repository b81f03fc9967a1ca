//! Driving a session: its only driver is started for an input, or by a caller that waits for the session to rest.

use std::sync::{Arc, atomic::Ordering};

use countersign_core::{journal::draft::Transition, refusal::Refusal};
use futures::future::BoxFuture;
use tokio::{runtime::Handle, sync::watch};

use super::{
    driver::{By, Driver, Step},
    failpoint,
    hold::Hold,
    inner::Inner,
    inputs::TurnOutcome,
    live::{LiveState, uses::LiveRef},
    nodes::{ELSEWHERE, Elsewhere},
    patience::until_stored,
};
use crate::store::{Durability, Guards};

/// A driver at work.
type Driven = BoxFuture<'static, ()>;

impl Inner {
    /// Wakes no waiter: only the end of the last driver does.
    pub(super) fn driver_began(&self) {
        self.drivers.send_if_modified(|running| {
            *running += 1;
            false
        });
    }

    pub(super) fn driver_ended(&self) {
        self.drivers.send_if_modified(|running| {
            *running -= 1;
            // Later waiters read the count first.
            *running == 0 && self.drivers.receiver_count() > 0
        });
    }

    /// Resumes the session in the background.
    pub(super) fn spawn_driver(self: &Arc<Self>, live: LiveRef) {
        self.spawn_driver_from(live, None);
    }

    /// The same, continuing from where an input began.
    pub(super) fn spawn_driver_from(self: &Arc<Self>, live: LiveRef, begun: Option<Driven>) {
        if !self.effects {
            return;
        }
        if begun.is_some() || self.claims_driver(&live) {
            let threads = self.threads.clone().unwrap_or_else(Handle::current);
            let inner = self.clone();
            threads.spawn(begun.unwrap_or_else(|| inner.driven(live, None)));
        } else {
            live.wake();
        }
    }

    /// Drives the session until it rests, as its only driver.
    fn driven(self: Arc<Self>, live: LiveRef, begun: Option<Driver>) -> Driven {
        Box::pin(async move {
            self.clone().drive(&live, begun).await;
            self.lives_on(&live).await;
        })
    }

    /// Stores a person's input, with the calls that it starts if the session rests here: they begin when it is driven
    /// from there.
    ///
    /// # Errors
    /// The input is refused, and no part of it is stored.
    pub(super) async fn store_input(
        self: &Arc<Self>,
        live: &LiveRef,
        guard: &mut LiveState,
        input: Transition,
        guards: Guards,
        durability: Durability,
    ) -> Result<Option<Driven>, Refusal> {
        let Some(mut driver) = Driver::of_rest(self, live, guard).await else {
            self.transact_if(guards, live, guard, durability, |_| Ok(input)).await?;
            return Ok(None);
        };
        if let Err(refused) = driver.advance(guard, Some(input), By::Person(guards, durability), true).await {
            guard.working = None;
            drop(driver);
            // An earlier input may have been stored while the session was driven.
            self.spawn_driver(live.clone());
            return Err(refused);
        }
        Ok(Some(self.clone().driven(live.clone(), Some(driver))))
    }

    /// Makes the caller the session's only driver; false if there is one.
    pub(super) fn claims_driver(&self, live: &LiveRef) -> bool {
        let claimed = live.claim_driver();
        if claimed {
            self.driver_began();
        }
        claimed
    }

    /// Resumes the session here, continuing from where an input began, and returns its outcome.
    pub(super) async fn drive_here(
        self: Arc<Self>,
        live: LiveRef,
        begun: Option<Driven>,
    ) -> Result<TurnOutcome, Refusal> {
        self.clone().drive_until_idle(&live, begun).await?;
        let mut guard = live.lock().await;
        let state = self.known(&live, &mut guard).await?;
        let outcome = self.outcome(&state, guard).await?;
        self.confirmed().await?;
        Ok(outcome)
    }

    /// Resumes the session here until no effect follows, or waits until another node has done so.
    ///
    /// # Errors
    /// `session_busy`: another node has the session, and stores nothing.
    pub(super) async fn drive_until_idle(
        self: Arc<Self>,
        live: &LiveRef,
        mut begun: Option<Driven>,
    ) -> Result<(), Refusal> {
        if !self.effects {
            return Ok(());
        }
        let mut elsewhere = Elsewhere::default();
        loop {
            let ours = begun.take();
            if ours.is_some() || self.claims_driver(live) {
                match ours {
                    Some(driven) => driven.await,
                    None => {
                        self.clone().drive(live, None).await;
                        self.lives_on(live).await;
                    }
                }
                if self.store.nodes().is_none() || live.lock().await.rests() {
                    return Ok(());
                }
            } else {
                live.wake();
                live.idle().await;
                elsewhere = Elsewhere::default();
            }
            // The previous driver may have been dropped halfway, or another node may be driving the session.
            let Some(pos) = self.left_at(live).await else { return Ok(()) };
            if self.store.nodes().is_some() {
                elsewhere.seen_at(pos)?;
                tokio::time::sleep(ELSEWHERE).await;
            }
        }
    }

    /// Waits until the session has no driver, here or on another node.
    pub(super) async fn rests(&self, live: &LiveRef) {
        live.idle().await;
        while self.store.nodes().is_some() && self.left_at(live).await.is_some() {
            tokio::time::sleep(ELSEWHERE).await;
        }
    }

    /// The position of the session, if it still runs, here or on another node, and this node is not shutting down; 0
    /// while the store cannot answer.
    async fn left_at(&self, live: &LiveRef) -> Option<u64> {
        let mut guard = live.lock().await;
        let left = match self.load(live, &mut guard).await {
            Ok(session) => Some(session.pos).filter(|_| !session.rests()),
            Err(error) => Some(0).filter(|_| !error.is_gone() && !error.is_unreadable()),
        };
        drop(guard);
        left.filter(|_| !self.draining.load(Ordering::SeqCst) && !*self.closing.borrow())
    }

    /// Waits until no other runtime of this process carries out the session's effects.
    async fn alone_at(self: &Arc<Self>, live: &LiveRef) -> Hold {
        let hold = match Hold::take(self, &live.session_id) {
            Ok(hold) => hold,
            Err(_) => {
                let hold = Hold::wait(self, &live.session_id).await;
                // It has continued there.
                live.lock().await.load_again();
                hold
            }
        };
        hold.works();
        hold
    }

    /// Takes the session for a driver, with everything that it needs; `false` if it cannot.
    async fn takes(self: &Arc<Self>, live: &LiveRef, driver: &mut Driver, closing: &mut watch::Receiver<bool>) -> bool {
        driver.claim.hold = tokio::select! { biased;
            hold = self.alone_at(live) => Some(hold),
            _ = closing.wait_for(|closing| *closing) => return false,
        };
        let leads = until_stored!(self, async {
            let mut guard = live.lock().await;
            let leads = match self.take_lease(live, &mut guard).await {
                Ok(leads) => leads,
                Err(error) => {
                    self.gives_up(live, &mut guard, &error).await;
                    return Err(error);
                }
            };
            if !leads {
                // Under the session's lock: a later change of the state finds no driver and starts one.
                driver.claim.give_back();
            }
            Ok(leads)
        });
        if leads == Some(true) {
            until_stored!(self, self.reach_tools(live));
        }
        leads == Some(true)
    }

    async fn drive(self: Arc<Self>, live: &LiveRef, begun: Option<Driver>) {
        let mut closing = self.closing.subscribe();
        let mut driver = match begun {
            Some(driver) => driver,
            None => {
                let mut driver = Driver::new(&self, live, None);
                if !self.takes(live, &mut driver, &mut closing).await {
                    return driver.claim.give_back();
                }
                driver
            }
        };
        while !*closing.borrow() {
            let stepped = until_stored!(self, async {
                let mut guard = live.lock().await;
                let step = match driver.step(&mut guard).await {
                    // Running work is stopped before other nodes may take the session.
                    Err(error) if error.is_unreadable() => return Ok(Err(error)),
                    step => step?,
                };
                if matches!(step, Step::Rests) {
                    driver.keep_warm(&guard);
                    if self.lets_go(live, &mut guard).await {
                        if failpoint::evicts() {
                            self.evict(live, &mut guard);
                        }
                        // Under the session's lock, as above.
                        driver.claim.give_back();
                        return Ok(Ok(None));
                    }
                }
                Ok(Ok(Some(step)))
            });
            match stepped {
                Some(Ok(Some(step))) => driver.carry_out(step, &mut closing).await,
                Some(Ok(None)) => return,
                Some(Err(error)) => {
                    driver.stop().await;
                    self.gives_up(live, &mut *live.lock().await, &error).await;
                    return driver.claim.give_back();
                }
                None => break,
            }
        }
        if *closing.borrow() {
            let mut guard = live.lock().await;
            driver.log_cut_off(&guard);
            self.ends_in_order(live, &mut guard).await;
        }
        driver.stop().await;
        driver.claim.give_back();
    }
}
