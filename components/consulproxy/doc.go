// Package consulproxy holds tests of the way of a member's requests to Consul as a whole, and of the
// routes that its proxies make of what they hear there:
//
//	workload ── agent's Consul proxy ── overlay ══ Session ══ overlay ── coordinator's Consul proxy ── Consul
//	caller ── Envoy ── overlay ══════ Session ══════ overlay ── Envoy ── backend
//
// Each end is tested where it is, against a stand-in of the other. Here both are real, with
// the Session between them and three replicated Consul servers behind them. Agent and
// coordinator do not import each other, so this is in neither.
package consulproxy
