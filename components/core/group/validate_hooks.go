package group

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxHooks  = 16
	maxChecks = 16
	// maxHookTime bounds both times of a hook.
	maxHookTime = 48 * time.Hour
	// maxServiceName bounds the name of a gRPC service.
	maxServiceName = 256
	maxTTLSec      = 3600
)

func (v *validator) hooks(hooks []LifecycleHook) {
	if len(hooks) > maxHooks {
		v.add("lifecycle_hook", "", "has %d hooks, at most %d are allowed", len(hooks), maxHooks)
	}
	seen := map[string]bool{}
	for _, h := range hooks {
		path := fmt.Sprintf("lifecycle_hook[%q]", h.Name)
		v.item(path, h.Name, seen)
		if h.Transition != PreTerminate && h.Transition != PostLaunch {
			v.add(path+".transition", "R78", "%q is unknown: use %s or %s", h.Transition, PreTerminate, PostLaunch)
		}
		if n := countSet(h.HTTP != nil, h.Exec != nil, h.Wait != nil, h.Driver != nil); n != 1 {
			v.add(path, "", "has %d of http, exec, wait and driver: exactly one is needed", n)
		}
		v.hookTimes(path, h)
		if h.HTTP != nil {
			v.httpAction(path+".http", *h.HTTP)
		}
		if h.Exec != nil {
			v.exec(path+".exec", *h.Exec)
		}
		if h.Driver != nil && h.Driver.Do != "transfer" && h.Driver.Do != "drain" {
			v.add(path+".driver.do", "", "%q is unknown: use transfer or drain", h.Driver.Do)
		}
	}
}

func (v *validator) hookTimes(path string, h LifecycleHook) {
	whole := v.within(path+".max_duration", "R79", h.maxDuration(), maxHookTime)
	beat := v.within(path+".heartbeat_timeout", "R79", h.heartbeat(), maxHookTime)
	if whole && beat && h.heartbeat() > h.maxDuration() {
		v.add(path+".heartbeat_timeout", "R79", "is %s: must not be longer than max_duration (%s), which no heartbeat extends",
			h.heartbeat(), h.maxDuration())
	}
	switch h.DefaultResult {
	case HookContinue, HookAbandon, HookHold:
	default:
		v.add(path+".default_result", "R80", "%q is unknown: use %s, %s or %s", h.DefaultResult, HookContinue, HookAbandon, HookHold)
	}
}

func (v *validator) httpAction(path string, a HTTPAction) {
	switch a.Method {
	case "GET", "POST", "PUT", "DELETE":
	default:
		v.add(path+".method", "", "%q is not allowed: use GET, POST, PUT or DELETE", a.Method)
	}
	v.workloadPort(path+".port", "HK-01", a.Port)
	v.path(path+".path", a.Path)
	if a.Expect != 0 && (a.Expect < 100 || a.Expect > 599) {
		v.add(path+".expect", "", "is %d: must be a status code from 100 to 599, or absent for any 2xx", a.Expect)
	}
}

func (v *validator) exec(path string, a ExecAction) {
	for _, field := range []struct{ name, value string }{{"service", a.Service}, {"command", a.Command}} {
		if p := NameProblem(field.value); p != "" {
			v.add(path+"."+field.name, "HK-03", "%s: name what the compose text declares under the service's x-cadre key", p)
		}
	}
}

func (v *validator) path(path, value string) {
	if !strings.HasPrefix(value, "/") || strings.HasPrefix(value, "//") || len(value) > 1024 || strings.ContainsFunc(value, isSpaceOrControl) {
		v.add(path, "", "%q is not a request path: it starts with one '/', has no blanks and at most 1024 bytes", value)
	}
}

func (v *validator) checks(checks []HealthCheck) {
	if len(checks) > maxChecks {
		v.add("health_check", "", "has %d checks, at most %d are allowed", len(checks), maxChecks)
	}
	seen := map[string]bool{}
	for _, c := range checks {
		path := fmt.Sprintf("health_check[%q]", c.Name)
		v.item(path, c.Name, seen)
		if n := countSet(c.HTTP != nil, c.TCP != nil, c.GRPC != nil, c.Exec != nil, c.TTL != nil); n != 1 {
			v.add(path, "", "has %d of http, tcp, grpc, exec and ttl: exactly one is needed", n)
		}
		if c.TTL != nil {
			v.ttl(path, c)
		} else {
			v.checkTimes(path, c)
		}
		if c.HTTP != nil {
			v.workloadPort(path+".http.port", "HK-01", c.HTTP.Port)
			v.path(path+".http.request_path", c.HTTP.RequestPath)
			if code, err := strconv.Atoi(c.HTTP.Expect); err != nil || code < 100 || code > 599 {
				v.add(path+".http.expect", "", "%q is not a status code from 100 to 599", c.HTTP.Expect)
			}
		}
		if c.TCP != nil {
			v.workloadPort(path+".tcp.port", "HK-01", c.TCP.Port)
		}
		if c.GRPC != nil {
			v.workloadPort(path+".grpc.port", "HK-01", c.GRPC.Port)
			if name := c.GRPC.Service; len(name) > maxServiceName || strings.ContainsFunc(name, isSpaceOrControl) || !utf8.ValidString(name) {
				v.add(path+".grpc.service", "", "%q is not the name of a gRPC service: at most %d bytes without blanks, or absent for the whole server", name[:min(len(name), maxServiceName)], maxServiceName)
			}
		}
		if c.Exec != nil {
			v.exec(path+".exec", *c.Exec)
		}
	}
}

// ttl: the workload reports, so the check has no interval, timeout or threshold.
func (v *validator) ttl(path string, c HealthCheck) {
	if n := c.TTL.TTLSec; n < 2 || n > maxTTLSec {
		v.add(path+".ttl.ttl_sec", "", "is %d: must be 2 to %d", n, maxTTLSec)
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"check_interval_sec", c.CheckIntervalSec}, {"timeout_sec", c.TimeoutSec},
		{"healthy_threshold", c.HealthyThreshold}, {"unhealthy_threshold", c.UnhealthyThreshold},
	} {
		if field.value != 0 {
			v.add(path+"."+field.name, "", "does nothing in a ttl check, which the workload reports itself: remove it, and set with ttl.ttl_sec how long a report is valid")
		}
	}
}

func (v *validator) checkTimes(path string, c HealthCheck) {
	if c.CheckIntervalSec < 1 || c.CheckIntervalSec > 300 {
		v.add(path+".check_interval_sec", "", "is %d: must be 1 to 300", c.CheckIntervalSec)
	}
	if c.TimeoutSec < 1 || c.TimeoutSec > max(c.CheckIntervalSec, 1) {
		v.add(path+".timeout_sec", "", "is %d: must be 1 to check_interval_sec (%d)", c.TimeoutSec, c.CheckIntervalSec)
	}
	if c.HealthyThreshold < 1 || c.HealthyThreshold > 10 {
		v.add(path+".healthy_threshold", "", "is %d: must be 1 to 10", c.HealthyThreshold)
	}
	if c.UnhealthyThreshold < 1 || c.UnhealthyThreshold > 10 {
		v.add(path+".unhealthy_threshold", "", "is %d: must be 1 to 10", c.UnhealthyThreshold)
	}
}

func isSpaceOrControl(r rune) bool { return r <= ' ' || r == 0x7f }

func countSet(set ...bool) int {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}
