package handover

import "github.com/prometheus/client_golang/prometheus"

// collector reads all figures when it is asked, so that none can be stale.
type collector struct{ stats func() []Stats }

var (
	descServed      = desc("served", "1 while the route's address is served without a fault.")
	descRoutePaused = desc("paused", "1 while clients of the route wait, or are about to.")

	// Of routes without a pooler.
	descOpen              = desc("open_connections", "Connections of clients that are open.")
	descWaiting           = desc("waiting_connections", "Open connections that wait for the end of a pause.")
	descConnectionsPaused = desc("paused_connections_total", "Connections that had to wait.")
	descEnded             = desc("paused_connections_ended_total", "Connections that wait no more: resumed with the release, expired with its limit, or left by their clients.", "outcome")
	descRefused           = desc("refused_connections_total", "Connections that were refused: too many waited, or were open.")
	descFailed            = desc("failed_connections_total", "Connections that reached no target.")

	// Of routes with one.
	descUp            = desc("pooler_up", "1 while the route's PgBouncer answers.")
	descPaused        = desc("pooler_paused", "1 while the pooler is paused, or about to be.")
	descClients       = desc("pooler_clients", "Clients that are connected to the pooler.")
	descQueued        = desc("pooler_waiting_clients", "Clients of the pooler that want a server.")
	descServers       = desc("pooler_servers", "Connections of the pooler to servers.")
	descStarts        = desc("pooler_starts_total", "How often PgBouncer was started.")
	descTakenOver     = desc("pooler_taken_over_total", "How often a running PgBouncer was taken over.")
	descReloads       = desc("pooler_reloads_total", "How often the pooler read its passwords again.")
	descPauses        = desc("pooler_pauses_total", "Pauses that were reached.")
	descPausesFailed  = desc("pooler_failed_pauses_total", "Pauses that were not reached in time.")
	descPausesExpired = desc("pooler_expired_pauses_total", "Pauses that ended by their limit.")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("cadre_route_"+name, help, append([]string{"route", "group"}, labels...), nil)
}

// Collector exports the metrics of all routes, labelled with the route's name and its group.
func (s *Routes) Collector() prometheus.Collector { return collector{s.Stats} }

// Describe sends nothing: labels vary, the collector is unchecked.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect reads all figures.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, r := range c.stats() {
		send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, v, append([]string{r.Route, r.Group}, labels...)...)
		}
		gauge := func(d *prometheus.Desc, v int) { send(d, prometheus.GaugeValue, float64(v)) }
		is := func(d *prometheus.Desc, b bool) { gauge(d, number(b)) }
		count := func(d *prometheus.Desc, v uint64, labels ...string) {
			send(d, prometheus.CounterValue, float64(v), labels...)
		}
		is(descServed, r.Problem == "")
		is(descRoutePaused, r.Paused)
		if g := r.Connections; g != nil {
			gauge(descOpen, g.OpenNow)
			gauge(descWaiting, g.PausedNow)
			count(descConnectionsPaused, g.Paused)
			count(descEnded, g.Resumed, "released")
			count(descEnded, g.Expired, "expired")
			count(descEnded, g.Left, "left")
			count(descRefused, g.Refused)
			count(descFailed, g.Failed)
		}
		if p := r.Pooler; p != nil {
			is(descUp, p.Up)
			is(descPaused, p.Paused)
			gauge(descClients, p.Clients)
			gauge(descQueued, p.Waiting)
			gauge(descServers, p.Servers)
			count(descStarts, p.Starts)
			count(descTakenOver, p.TakenOver)
			count(descReloads, p.Reloads)
			count(descPauses, p.Pauses)
			count(descPausesFailed, p.PausesFailed)
			count(descPausesExpired, p.PausesExpired)
		}
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
