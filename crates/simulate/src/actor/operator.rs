//! An operator at work: what the runtime CLI does to servers.

use std::rc::Rc;
use std::sync::Arc;

use thalweg_proxy::operator::Hand;
use thalweg_proxy::worker;
use thalweg_runtime::timer;

use crate::plan::{Deed, Plan};
use crate::record::Record;

/// Does one thing to one server, at its time.
pub async fn act(plan: Arc<Plan>, record: Rc<Record>, (at_ms, server, deed): (u64, usize, Deed)) {
    timer::sleep(at_ms).await;
    let Some(worker) = worker::current() else { return };
    let backend = plan.proxy.backend_of(server);
    let Some(proxy) = worker.instance.backend_by_name(backend.name.as_bytes()) else { return };
    let Some(server) = proxy.server_by_name(&format!("s{server}")) else { return };
    record.network.note(|| format!("actor an operator: {deed:?} on {}/{}", proxy.name, server.name));
    let hand = Hand { worker: &worker, proxy: proxy.id, server: server.id };
    match deed {
        Deed::Maintain => hand.maintain(),
        Deed::Drain => hand.start_drain(),
        Deed::Ready => hand.make_ready(),
        Deed::Weight(weight) => hand.set_weight(weight),
        Deed::Maxconn(most) => worker.backend(proxy.id).set_maxconn(server.id, most),
    }
}
