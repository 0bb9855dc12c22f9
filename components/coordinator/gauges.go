package coordinator

import "cadre.dev/coordinator/internal/view"

// gauges registers the metrics of the groups, of the connections here, and of Consul's restarts.
func (c *Coordinator) gauges() {
	c.metrics.Groups(func() *view.View {
		if v, _ := c.views.Latest(); c.views.Readable() {
			return v
		}
		return nil
	})
	latest := func(of func(v *view.View) float64) func() float64 {
		return func() float64 {
			v, _ := c.views.Latest()
			if v == nil {
				return 0
			}
			return of(v)
		}
	}
	c.metrics.Gauge("cadre_tcb_tolerance_ends_timestamp_seconds", "When the first member is refused whose machine is not UpToDate but tolerated for a while; 0: there is none.",
		latest(func(v *view.View) float64 { return v.ToleranceEnds(c.cfg.Trust.TCB, c.deps.Now()) }))
	c.metrics.Gauge("cadre_tcb_out_of_date_timestamp_seconds", "About when Intel's standard collateral will call the first member's machine out of date that is UpToDate now, by the early set; 0: none is expected.",
		latest((*view.View).MachinesOutOfDateAt))
	c.metrics.Gauge("cadre_last_backup_timestamp_seconds", "When the last backup of the records was taken; 0: there is none.", latest(func(v *view.View) float64 {
		if v.LastBackup.At.IsZero() {
			return 0
		}
		return float64(v.LastBackup.At.Unix())
	}))
	c.metrics.Gauge("cadre_control_sessions", "Slots with an open control session here.", func() float64 { return float64(c.reports.Connected()) })
	c.metrics.Gauge("cadre_api_operators", "Open connections of operators to the API.", func() float64 { n, _ := c.server.Connections(); return float64(n) })
	c.metrics.Gauge("cadre_api_unauthenticated_callers", "Open connections of callers to the API without a valid token.", func() float64 { _, n := c.server.Connections(); return float64(n) })
	c.metrics.Gauge("cadre_consul_restarts", "Times the Consul server was started again.", func() float64 { return float64(c.consul.Restarts()) })
}
