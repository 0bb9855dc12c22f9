package compose

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/compose-spec/compose-go/v2/types"
	"golang.org/x/sys/unix"
)

const defaultGrace = 10 * time.Second

// honoured are the keys that service converts. A key that is in neither list is
// refused, so a key that a newer compose-go learns is refused too.
var honoured = []string{
	"name", "profiles", "image", "command", "entrypoint", "environment", "user", "group_add", "working_dir", "hostname",
	"volumes", "tmpfs", "configs", "depends_on", "healthcheck", "restart", "stop_signal", "stop_grace_period",
	"network_mode", "extra_hosts", "cap_add", "cap_drop", "read_only", "ulimits", "security_opt", "scale", "deploy",
	"secrets", "env_file", "init",
}

// noted are keys without effect here, and why that is acceptable.
var noted = map[string]string{
	"ports":           "ignored: a host-network service listens on the CVM itself and the gateway reaches every port",
	"expose":          "ignored: it opens nothing in host network mode",
	"labels":          "ignored: nothing here reads them",
	"annotations":     "ignored: nothing here reads them",
	"container_name":  "ignored: there is no container engine",
	"logging":         "ignored: output goes to the cloud's log files",
	"pull_policy":     "ignored: an image is pulled once",
	"platform":        "ignored: CVMs are of one kind",
	"mem_limit":       "not enforced",
	"mem_reservation": "not enforced",
	"memswap_limit":   "not enforced",
	"cpus":            "not enforced",
	"cpu_shares":      "not enforced",
	"cpuset":          "not enforced",
	"pids_limit":      "not enforced",
	"shm_size":        "not enforced: /dev/shm is as large as the machine allows",
	"stdin_open":      "ignored: standard input is empty",
	"attach":          "ignored: nothing is attached",
	"oom_score_adj":   "not enforced",
}

func (c *converter) service(s types.ServiceConfig) Service {
	c.checkKeys(s)
	out := Service{
		Name: s.Name, Image: s.Image, Entrypoint: s.Entrypoint, Command: s.Command, User: s.User, Groups: s.GroupAdd,
		WorkingDir: s.WorkingDir, Hostname: s.Hostname, Env: map[string]string{}, ReadOnly: s.ReadOnly,
		CapAdd: s.CapAdd, CapDrop: s.CapDrop, StopGrace: defaultGrace,
	}
	if s.Image == "" {
		c.refuse(s.Name, "image", "is missing")
	}
	if s.NetworkMode != "host" {
		c.refuse(s.Name, "network_mode", "is %q; set network_mode: host, a CVM has no container networks here", s.NetworkMode)
	}
	for k, v := range s.Environment {
		if v != nil {
			out.Env[k] = *v
		}
	}
	for _, host := range slices.Sorted(maps.Keys(s.ExtraHosts)) {
		for _, ip := range s.ExtraHosts[host] {
			if ip == "host-gateway" {
				ip = "127.0.0.1"
			}
			out.Hosts = append(out.Hosts, ip+" "+host)
		}
	}
	for _, dep := range slices.Sorted(maps.Keys(s.DependsOn)) {
		d := s.DependsOn[dep]
		if _, ok := c.project.Services[dep]; !ok {
			if d.Required {
				c.refuse(s.Name, "depends_on", "service %s is not enabled", dep)
			}
			continue
		}
		out.DependsOn = append(out.DependsOn, Dependency{Service: dep, Condition: Condition(d.Condition)})
	}
	c.restart(s, &out)
	c.stop(s, &out)
	c.limits(s, &out)
	out.Health = c.health(s)
	out.NoHealth = s.HealthCheck != nil && out.Health == nil
	out.Mounts = c.mounts(s)
	return out
}

// checkKeys refuses every set key that is neither honoured nor noted.
func (c *converter) checkKeys(s types.ServiceConfig) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		if key == "-" || key == "#extensions" || v.Field(i).IsZero() || empty(v.Field(i)) || slices.Contains(honoured, key) {
			continue
		}
		if why, ok := noted[key]; ok {
			c.note(s.Name, key, why)
			continue
		}
		c.refuse(s.Name, key, "not supported by the local cloud; remove the key")
	}
	if len(s.Secrets) > 0 {
		c.refuse(s.Name, "secrets", "not supported in a CVM; derive them from the guest agent or fetch them from an attested peer")
	}
	if len(s.EnvFiles) > 0 {
		c.refuse(s.Name, "env_file", "not supported: a CVM has no other files than the compose file; use environment")
	}
	if s.Scale != nil && *s.Scale != 1 {
		c.refuse(s.Name, "scale", "is %d; a CVM runs each service once", *s.Scale)
	}
	for _, opt := range s.SecurityOpt {
		// Every service has no-new-privileges; the rest would change confinement.
		if opt != "no-new-privileges" && opt != "no-new-privileges:true" {
			c.refuse(s.Name, "security_opt", "%q is not supported", opt)
		}
	}
	if d := s.Deploy; d != nil {
		c.note(s.Name, "deploy", "not enforced: there is no scheduler or resource control")
		if d.Replicas != nil && *d.Replicas != 1 {
			c.refuse(s.Name, "deploy.replicas", "is %d; a CVM runs each service once", *d.Replicas)
		}
		if d.RestartPolicy != nil {
			c.refuse(s.Name, "deploy.restart_policy", "not supported; use restart")
		}
	}
}

func empty(v reflect.Value) bool {
	k := v.Kind()
	return (k == reflect.Map || k == reflect.Slice) && v.Len() == 0
}

func (c *converter) restart(s types.ServiceConfig, out *Service) {
	policy, times, counted := strings.Cut(s.Restart, ":")
	switch policy {
	case "", "no":
		out.Restart = RestartNo
	case "always":
		out.Restart = RestartAlways
	case "unless-stopped":
		out.Restart = RestartUnlessStopped
	case "on-failure":
		out.Restart = RestartOnFailure
	default:
		c.refuse(s.Name, "restart", "%q is not one of no, always, unless-stopped, on-failure", s.Restart)
	}
	if counted {
		n, err := strconv.Atoi(times)
		if policy != "on-failure" || err != nil || n < 0 {
			c.refuse(s.Name, "restart", "%q: only on-failure takes a count", s.Restart)
		}
		out.MaxRetries = n
	}
}

func (c *converter) stop(s types.ServiceConfig, out *Service) {
	if s.StopGracePeriod != nil {
		out.StopGrace = time.Duration(*s.StopGracePeriod)
	}
	if s.StopSignal == "" {
		return
	}
	sig, err := ParseSignal(s.StopSignal)
	if err != nil {
		c.refuse(s.Name, "stop_signal", "%v", err)
		return
	}
	out.StopSignal = sig
}

// ParseSignal reads a signal as compose files and images write it: "SIGINT", "int", "2".
func ParseSignal(name string) (syscall.Signal, error) {
	if n, err := strconv.Atoi(name); err == nil && n > 0 && n < 65 {
		return syscall.Signal(n), nil
	}
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	return 0, fmt.Errorf("%q is no signal", name)
}

var limitNames = []string{"as", "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio", "rttime", "sigpending", "stack"}

func (c *converter) limits(s types.ServiceConfig, out *Service) {
	for name, u := range s.Ulimits {
		if !slices.Contains(limitNames, name) {
			c.refuse(s.Name, "ulimits", "%q is no resource limit", name)
			continue
		}
		soft, hard := u.Soft, u.Hard
		if u.Single != 0 {
			soft, hard = u.Single, u.Single
		}
		if out.Limits == nil {
			out.Limits = map[string]string{}
		}
		out.Limits[name] = limit(soft) + ":" + limit(hard)
	}
}

func limit(n int) string {
	if n < 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}

func (c *converter) health(s types.ServiceConfig) *Health {
	h := s.HealthCheck
	if h == nil || h.Disable || (len(h.Test) > 0 && h.Test[0] == "NONE") {
		return nil
	}
	if len(h.Test) < 2 || (h.Test[0] != "CMD" && h.Test[0] != "CMD-SHELL") {
		c.refuse(s.Name, "healthcheck.test", "want [CMD, ...] or [CMD-SHELL, text]")
		return nil
	}
	out := HealthOf(h.Test)
	out.Interval, out.Timeout = duration(h.Interval, out.Interval), duration(h.Timeout, out.Timeout)
	out.StartPeriod, out.StartInterval = duration(h.StartPeriod, out.StartPeriod), duration(h.StartInterval, out.StartInterval)
	if err := out.Check(); err != nil {
		c.refuse(s.Name, "healthcheck", "%s", err)
	}
	if h.Retries != nil && *h.Retries > 0 && *h.Retries < 1<<20 {
		out.Retries = int(*h.Retries)
	}
	return out
}

// shortest is the least that container engines take for the times of a health check.
const shortest = time.Millisecond

// Check refuses times that an engine would refuse: checks without a pause.
func (h *Health) Check() error {
	for name, d := range map[string]time.Duration{"interval": h.Interval, "timeout": h.Timeout, "start_interval": h.StartInterval} {
		if d < shortest {
			return fmt.Errorf("%s %s is shorter than %s", name, d, shortest)
		}
	}
	return nil
}

// HealthOf is a check with the default times; test begins with CMD or CMD-SHELL and has
// more than that.
func HealthOf(test []string) *Health {
	command := slices.Clone(test[1:])
	if test[0] == "CMD-SHELL" {
		command = []string{"/bin/sh", "-c", strings.Join(command, " ")}
	}
	return &Health{Test: command, Interval: 30 * time.Second, Timeout: 30 * time.Second, StartInterval: 5 * time.Second, Retries: 3}
}

func duration(d *types.Duration, def time.Duration) time.Duration {
	if d == nil || *d <= 0 {
		return def
	}
	return time.Duration(*d)
}
