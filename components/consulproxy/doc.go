// Package consulproxy holds tests of the whole path of a member's requests to Consul, and of the
// routes that the member's proxies build from Consul's answers:
//
//	workload ── agent's Consul proxy ── overlay ══ Session ══ overlay ── coordinator's Consul proxy ── Consul
//	caller ── Envoy ── overlay ══════ Session ══════ overlay ── Envoy ── backend
//
// Each end is tested where it is, against a stand-in of the other. Here both are real, with
// the Session between them and three replicated Consul servers behind them. Agent and
// coordinator do not import each other, so this is in neither.
package consulproxy
