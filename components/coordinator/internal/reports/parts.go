package reports

import (
	"cadre.dev/core/group"
	"cadre.dev/core/rollout"
	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// Workload is the health of the member without its Envoys: the driver's own report and the checks
// of the spec.
func (r Received) Workload() rollout.Health {
	health, _ := healthOf(r.Report, func(check *controlv1.CheckResult) bool {
		return counts(check) && !group.IsProxyCheck(check.GetName())
	})
	return health
}

// Live reports whether the Envoy of the proxy of that ID is live. A proxy that is missing in the
// report is not.
func (r Received) Live(proxy string) bool {
	for _, check := range r.Report.GetChecks() {
		if check.GetName() == group.ProxyCheck(proxy) {
			return check.GetHealth() == controlv1.Health_HEALTH_HEALTHY
		}
	}
	return false
}
