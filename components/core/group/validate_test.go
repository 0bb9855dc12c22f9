package group

import (
	"strings"
	"testing"
	"time"
)

func TestValidateAcceptsAGoodSpec(t *testing.T) {
	if got := problems(t, goodSpec()); got != nil {
		t.Errorf("problems %v", got)
	}
	bare := Spec{Name: "a", Replicas: 1, Template: Template{Compose: goodCompose(), InstanceType: "tdx.small", OSImage: "dstack-0.5.7"}}
	if got := problems(t, bare); got != nil {
		t.Errorf("a spec without the optional fields: %v", got)
	}
	if bare.Platform != "" {
		t.Error("Validate wrote to its argument")
	}
}

func TestValidateReportsAllProblemsAtOnce(t *testing.T) {
	s := goodSpec()
	s.Name, s.Replicas, s.Template.OSImage = "Postgres", 2001, ""
	s.HealthChecks[0].HTTP.Port = 70000
	s.UpdatePolicy.MaxUnavailableFixed = ptr(0)
	got := strings.Join(problems(t, s), "\n")
	for _, path := range []string{"name: ", "replicas: ", "template.os_image: ", `health_check["ready"].http.port: `, "update_policy.max_unavailable_fixed: "} {
		if !strings.Contains(got, path) {
			t.Errorf("no problem at %q in\n%s", path, got)
		}
	}
}

// TestCTL11_ValidateRefuses: a spec that can never be safe or never work is rejected.
func TestCTL11_ValidateRefuses(t *testing.T) {
	for path, edit := range map[string]func(*Spec){
		"name":                                     func(s *Spec) { s.Name = "coordinator" },
		"platform":                                 func(s *Spec) { s.Platform = "aws" },
		"app_id":                                   func(s *Spec) { s.AppID = strings.Repeat("A", 40) },
		"replicas":                                 func(s *Spec) { s.Replicas = 0 },
		"management_policy":                        func(s *Spec) { s.ManagementPolicy = "SERIAL" },
		"preserved_state.disk":                     func(s *Spec) { s.PreservedState.Disk = "../x" },
		"restart_token":                            func(s *Spec) { s.RestartToken = strings.Repeat("x", 129) },
		"template.compose":                         func(s *Spec) { s.Template.Compose = "" },
		"template.instance_type":                   func(s *Spec) { s.Template.InstanceType = "tdx small" },
		"template.disk_gb":                         func(s *Spec) { s.Template.DiskGB = -1 },
		`template.env["1A"]`:                       func(s *Spec) { s.Template.Env = map[string]string{"1A": ""} },
		`template.env["A=B"]`:                      func(s *Spec) { s.Template.Env = map[string]string{"A=B": ""} },
		`template.env["CADRE_X"]`:                  func(s *Spec) { s.Template.Env = map[string]string{"CADRE_X": "", "CADRE_GATEWAY_DOMAIN": "d"} },
		`template.env["Z"]`:                        func(s *Spec) { s.Template.Env = map[string]string{"Z": "a\x00"} },
		"template.env":                             func(s *Spec) { s.Template.Env = map[string]string{"Z": strings.Repeat("a", maxEnvBytes)} },
		`meta["a-b"]`:                              func(s *Spec) { s.Meta = map[string]string{"a-b": ""} },
		"update_policy.type":                       func(s *Spec) { s.UpdatePolicy.Type = "SOMETIMES" },
		"update_policy.leader":                     func(s *Spec) { s.UpdatePolicy.Leader = "first" },
		"update_policy.irreversible":               func(s *Spec) { s.UpdatePolicy.Irreversible = "never" },
		"update_policy.on_failure":                 func(s *Spec) { s.UpdatePolicy.OnFailure = "RETRY" },
		"update_policy.partition":                  func(s *Spec) { s.UpdatePolicy.Partition = 4 },
		"workload.kind":                            func(s *Spec) { s.Workload = Workload{Kind: "kafka"} },
		`workload.settings["x"]`:                   func(s *Spec) { s.Workload.Settings = map[string]string{"x": "1"} },
		`workload.settings["port"]`:                func(s *Spec) { s.Workload = Workload{Kind: "consul", Settings: map[string]string{"port": "1"}} },
		`backend["pg"].protocol`:                   func(s *Spec) { s.Backends[0].Protocol = "icmp" },
		`backend["pg"].port`:                       func(s *Spec) { s.Backends[0].Port = 0 },
		`backend["pg"].allow[0]`:                   func(s *Spec) { s.Backends[0].Allow = []string{"A"} },
		`backend["pg"]`:                            func(s *Spec) { s.Backends = append(s.Backends, Backend{Name: "pg", Protocol: "tcp", Port: 1}) },
		`backend["q"].port`:                        func(s *Spec) { s.Backends = append(s.Backends, Backend{Name: "q", Protocol: "tcp", Port: 5432}) },
		`lifecycle_hook["drain"]`:                  func(s *Spec) { s.LifecycleHooks[0].Wait = &WaitAction{} },
		`lifecycle_hook["warm"]`:                   func(s *Spec) { s.LifecycleHooks[1].Exec = nil },
		`lifecycle_hook["drain"].http.method`:      func(s *Spec) { s.LifecycleHooks[0].HTTP.Method = "TRACE" },
		`lifecycle_hook["drain"].http.path`:        func(s *Spec) { s.LifecycleHooks[0].HTTP.Path = "//evil/x" },
		`lifecycle_hook["drain"].http.expect`:      func(s *Spec) { s.LifecycleHooks[0].HTTP.Expect = 99 },
		`lifecycle_hook["warm"].exec.command`:      func(s *Spec) { s.LifecycleHooks[1].Exec.Command = "sh -c x" },
		`lifecycle_hook["warm"].exec.service`:      func(s *Spec) { s.LifecycleHooks[1].Exec.Service = "" },
		`lifecycle_hook["x"].driver.do`:            func(s *Spec) { s.LifecycleHooks[0] = hook("x", &DriverAction{Do: "explode"}) },
		`health_check["ready"]`:                    func(s *Spec) { s.HealthChecks[0].TCP = &TCPCheck{Port: 1} },
		`health_check["ready"].http.request_path`:  func(s *Spec) { s.HealthChecks[0].HTTP.RequestPath = "ready" },
		`health_check["ready"].http.expect`:        func(s *Spec) { s.HealthChecks[0].HTTP.Expect = "2xx" },
		`health_check["g"].grpc.port`:              func(s *Spec) { s.HealthChecks[0] = asked("g", HealthCheck{GRPC: &GRPCCheck{}}) },
		`health_check["g"].grpc.service`:           func(s *Spec) { s.HealthChecks[0] = asked("g", HealthCheck{GRPC: &GRPCCheck{Port: 1, Service: "a b"}}) },
		`health_check["t"].ttl.ttl_sec`:            func(s *Spec) { s.HealthChecks[0] = HealthCheck{Name: "t", TTL: &TTLCheck{TTLSec: 1}} },
		`health_check["t"].check_interval_sec`:     func(s *Spec) { s.HealthChecks[0] = ttlCheck("t", 1, 0) },
		`health_check["t"].unhealthy_threshold`:    func(s *Spec) { s.HealthChecks[0] = ttlCheck("t", 0, 3) },
		`health_check["ready"].timeout_sec`:        func(s *Spec) { s.HealthChecks[0].TimeoutSec = 11 },
		`health_check["ready"].check_interval_sec`: func(s *Spec) { s.HealthChecks[0].CheckIntervalSec = 301 },
		`health_check["ready"].healthy_threshold`:  func(s *Spec) { s.HealthChecks[0].HealthyThreshold = 11 },
	} {
		t.Run(path, func(t *testing.T) {
			s := goodSpec()
			edit(&s)
			wantProblem(t, s, path, "")
		})
	}
}

// TestHK01_APathNamesNoHost: the agent puts it behind http://127.0.0.1:<port>.
func TestHK01_APathNamesNoHost(t *testing.T) {
	for _, path := range []string{
		"", "x", "@evil.test/", ":80@evil.test/", "0@evil.test/", ".evil.test/", "//evil.test/", "http://evil.test/", "?x", "#x", " /", "\t/",
		"/a b", "/a\r\nHost: evil.test", "/\x00", "/" + strings.Repeat("a", 1024),
	} {
		s := goodSpec()
		s.LifecycleHooks[0].HTTP.Path = path
		wantProblem(t, s, `lifecycle_hook["drain"].http.path`, "")
		s = goodSpec()
		s.HealthChecks[0].HTTP.RequestPath = path
		wantProblem(t, s, `health_check["ready"].http.request_path`, "")
	}
}

// asked is c with a name and the times that a check has by default.
func asked(name string, c HealthCheck) HealthCheck {
	c.Name = name
	c.normalize()
	return c
}

// ttlCheck is a TTL check, with settings that have no effect on it.
func ttlCheck(name string, interval, failures int) HealthCheck {
	return HealthCheck{Name: name, TTL: &TTLCheck{TTLSec: 30}, CheckIntervalSec: interval, UnhealthyThreshold: failures}
}

// TestChecksThatAreTaken: a check of each kind, by its defaults.
func TestChecksThatAreTaken(t *testing.T) {
	s := goodSpec()
	s.HealthChecks = []HealthCheck{
		{Name: "g", GRPC: &GRPCCheck{Port: 9090}},
		{Name: "s", GRPC: &GRPCCheck{Port: 9090, Service: "shop.v1.Orders"}},
		{Name: "t", TTL: &TTLCheck{TTLSec: 30}},
	}
	s.Normalize()
	if all := problems(t, s); len(all) > 0 {
		t.Fatal(all)
	}
	if c := s.HealthChecks[2]; c.CheckIntervalSec != 0 || c.TimeoutSec != 0 || c.HealthyThreshold != 0 || c.UnhealthyThreshold != 0 {
		t.Errorf("a ttl check was given what it has no use for: %+v", c)
	}
}

func hook(name string, do *DriverAction) LifecycleHook {
	return LifecycleHook{Name: name, Transition: PreTerminate, Driver: do, HeartbeatTimeout: minutes(1), MaxDuration: minutes(1), DefaultResult: HookHold}
}

func TestIDN02_INP07_Names(t *testing.T) {
	for _, name := range []string{"a", "postgres", "a1-b2", strings.Repeat("a", 40)} {
		if p := NameProblem(name); p != "" {
			t.Errorf("%q %s", name, p)
		}
	}
	for _, name := range []string{"", "1a", "-a", "a-", "a--b", "A", "a_b", "a.b", "a/b", "ä", "a b", strings.Repeat("a", 41)} {
		if NameProblem(name) == "" {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestR15_BothZeroIsRefused(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.MaxUnavailableFixed = ptr(0)
	wantProblem(t, s, "update_policy.max_unavailable_fixed", "R15")
	s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxUnavailablePercent = nil, ptr(0)
	wantProblem(t, s, "update_policy.max_unavailable_percent", "R15")
}

// TestR15a_ZeroIsInTheRange of both fields where an extra Slot makes up for it. The documented
// ranges agree.
func TestR15a_ZeroIsInTheRange(t *testing.T) {
	for _, c := range []struct {
		path string
		set  func(p *UpdatePolicy, n int)
	}{
		{"update_policy.max_unavailable_fixed", func(p *UpdatePolicy, n int) { p.MaxUnavailableFixed = &n }},
		{"update_policy.max_unavailable_percent", func(p *UpdatePolicy, n int) { p.MaxUnavailablePercent = &n }},
	} {
		s := goodSpec()
		s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxSurgeFixed = nil, ptr(1)
		c.set(&s.UpdatePolicy, 0)
		if got := problems(t, s); got != nil {
			t.Errorf("%s = 0 beside an extra slot: %v", c.path, got)
		}
		c.set(&s.UpdatePolicy, -1)
		got := problems(t, s)
		if len(got) != 1 || !strings.HasPrefix(got[0], c.path+": ") || !strings.Contains(got[0], "0 only together with max_surge_fixed or max_surge_percent") {
			t.Errorf("%s = -1: %v", c.path, got)
		}
		for _, f := range Fields() {
			if f.Path == c.path && !strings.Contains(f.Range, "0 only together with") {
				t.Errorf("%s is documented as %s", c.path, f.Range)
			}
		}
	}
}

func TestR100_ToleratedFailuresAreFewerThanTheBudget(t *testing.T) {
	s := goodSpec()
	s.Workload, s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxFailed = Workload{}, ptr(2), 1
	if got := problems(t, s); got != nil {
		t.Errorf("one of two is refused: %v", got)
	}
	s.UpdatePolicy.MaxFailed = 2
	wantProblem(t, s, "update_policy.max_failed", "R100")
	s.UpdatePolicy.MaxSurgeFixed = ptr(1) // an extra slot stands in for one of the failed ones
	if got := problems(t, s); got != nil {
		t.Errorf("two of three is refused: %v", got)
	}
	s.UpdatePolicy.MaxFailed = -1
	wantProblem(t, s, "update_policy.max_failed", "R100")
	s.Workload, s.UpdatePolicy.MaxFailed = Workload{Kind: WorkloadEtcd}, 1
	wantProblem(t, s, "update_policy.max_failed", "R100")
}

func TestR107_ThePaceOfCreationsIsOfParallelOnes(t *testing.T) {
	s := goodSpec()
	s.ManagementPolicy, s.UpdatePolicy.MaxCreating = Parallel, ptr(2)
	if got := problems(t, s); got != nil {
		t.Errorf("two at a time are refused: %v", got)
	}
	for _, wrong := range []int{-1, 0, MaxReplicas + 1} {
		s.UpdatePolicy.MaxCreating = &wrong
		wantProblem(t, s, "update_policy.max_creating", "R107")
	}
	s.ManagementPolicy, s.UpdatePolicy.MaxCreating = "", ptr(2)
	wantProblem(t, s, "update_policy.max_creating", "R107")
}

func TestR15b_WhatARolloutMayReplace(t *testing.T) {
	s := goodSpec()
	s.Workload, s.PreservedState, s.Replicas = Workload{}, PreservedState{}, 3
	s.UpdatePolicy.MinimalAction, s.UpdatePolicy.MaxSurgeFixed = ActionReplace, ptr(1)
	if got := problems(t, s); got != nil {
		t.Errorf("a group without state is refused: %v", got)
	}
	for name, edit := range map[string]func(s *Spec){
		"voters":           func(s *Spec) { s.Workload = Workload{Kind: WorkloadEtcd} },
		"a preserved disk": func(s *Spec) { s.PreservedState.Disk = "data" },
		"one preserved disk": func(s *Spec) {
			s.Instances = []InstanceSettings{{Ordinal: 1, PreservedState: PreservedState{Disk: "data"}}}
		},
		"no extra slot":        func(s *Spec) { s.UpdatePolicy.MaxSurgeFixed = nil },
		"no automatic rollout": func(s *Spec) { s.UpdatePolicy.Type = Opportunistic },
		"all of them, at once": func(s *Spec) {
			s.PreservedState.Disk, s.UpdatePolicy.MaxSurgeFixed, s.UpdatePolicy.Type = "data", nil, Opportunistic
		},
	} {
		bad := s
		edit(&bad)
		t.Run(name, func(t *testing.T) { wantProblem(t, bad, "update_policy.minimal_action", "R15b") })
	}
	s.UpdatePolicy.MostDisruptiveAllowedAction = ActionRestart
	wantProblem(t, s, "update_policy.most_disruptive_allowed_action", "R132")
}

func TestR15a_ExtraSlots(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxSurgeFixed = ptr(0), ptr(1)
	if got := problems(t, s); got != nil {
		t.Errorf("nothing away and one more is refused: %v", got)
	}
	s.UpdatePolicy.MaxSurgeFixed = ptr(0)
	wantProblem(t, s, "update_policy.max_unavailable_fixed", "R15")
	s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxSurgeFixed = nil, ptr(-1)
	wantProblem(t, s, "update_policy.max_surge_fixed", "R15a")
	s.UpdatePolicy.MaxSurgeFixed = ptr(MaxReplicas)
	wantProblem(t, s, "update_policy.max_surge_fixed", "R15a")
	s.Workload, s.Replicas, s.UpdatePolicy.MaxSurgeFixed = Workload{Kind: WorkloadEtcd}, 1, ptr(1)
	wantProblem(t, s, "update_policy.max_surge_fixed", "R15a")
	s.UpdatePolicy.MaxSurgePercent = ptr(50)
	wantProblem(t, s, "update_policy.max_surge_fixed", "")
	s.UpdatePolicy.MaxSurgeFixed = nil
	wantProblem(t, s, "update_policy.max_surge_percent", "R15a")
	for percent, rule := range map[int]string{-1: "R14", 101: "R14"} {
		s.UpdatePolicy.MaxSurgePercent = ptr(percent)
		wantProblem(t, s, "update_policy.max_surge_percent", rule)
	}
}

// A single voter gets two extra ones, or none.
func TestR15a_ExtraSlotsOfASingleVoter(t *testing.T) {
	for _, c := range []struct {
		kind  string
		extra int
		says  string
	}{
		{WorkloadEtcd, 1, "use max_surge_fixed = 2"}, {WorkloadEtcd, 2, ""}, {WorkloadPatroni, 1, ""},
		{WorkloadConsul, 1, "use max_surge_fixed = 2"}, {WorkloadConsul, 2, ""},
	} {
		s := goodSpec()
		s.Workload, s.Replicas, s.UpdatePolicy.MaxSurgeFixed = Workload{Kind: c.kind}, 1, ptr(c.extra)
		said := ""
		for _, p := range problems(t, s) {
			if strings.HasPrefix(p, "update_policy.max_surge_fixed") {
				said += p
			}
		}
		if (said == "") != (c.says == "") || !strings.Contains(said, c.says) {
			t.Errorf("%s and %d more: %q, want %q", c.kind, c.extra, said, c.says)
		}
	}
}

func TestR13_PercentRangeAndExclusion(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxUnavailablePercent = nil, ptr(101)
	wantProblem(t, s, "update_policy.max_unavailable_percent", "R13")
	s.UpdatePolicy.MaxUnavailableFixed, s.UpdatePolicy.MaxUnavailablePercent = ptr(1), ptr(10)
	wantProblem(t, s, "update_policy.max_unavailable_fixed", "")
}

func TestR18_SizeOneIsAWarning(t *testing.T) {
	s := goodSpec()
	s.Workload, s.Replicas = Workload{Kind: "etcd"}, 1
	if got := problems(t, s); got != nil {
		t.Errorf("refused: %v", got)
	}
	if w := Warnings(s); len(w) != 1 || !strings.Contains(w[0], "will_interrupt") {
		t.Errorf("warnings %v", w)
	}
}

// TestReplicasHaveABound: 2,000, and 100 where the reports of each name the others.
func TestReplicasHaveABound(t *testing.T) {
	s := goodSpec()
	s.Workload, s.Replicas = Workload{Kind: WorkloadNone}, 2000
	if got := problems(t, s); got != nil {
		t.Errorf("refused: %v", got)
	}
	s.Replicas = 2001
	wantProblem(t, s, "replicas", "")
	for _, kind := range []string{WorkloadPatroni, WorkloadEtcd, WorkloadConsul} {
		s.Workload, s.Replicas = Workload{Kind: kind}, 101
		wantProblem(t, s, "replicas", "")
	}
}

func TestR19_TwoVotersAreRefusedUnlessAllowed(t *testing.T) {
	for _, kind := range []string{"consul", "etcd"} {
		s := goodSpec()
		s.Workload, s.Replicas = Workload{Kind: kind}, 2
		wantProblem(t, s, "replicas", "R19")
		s.UpdatePolicy.Interruption = InterruptionAllow
		if got := problems(t, s); got != nil {
			t.Errorf("%s with interruption allowed: %v", kind, got)
		}
		if len(Warnings(s)) != 1 {
			t.Errorf("%s: warnings %v", kind, Warnings(s))
		}
	}
	s := goodSpec()
	s.Replicas = 2
	if got := problems(t, s); got != nil {
		t.Errorf("two patroni members do not vote among themselves: %v", got)
	}
}

func TestR19_EvenVotersAreAWarning(t *testing.T) {
	s := goodSpec()
	s.Workload, s.Replicas = Workload{Kind: "consul"}, 4
	if problems(t, s) != nil || len(Warnings(s)) != 1 || !strings.Contains(Warnings(s)[0], "even_voters") {
		t.Errorf("problems %v, warnings %v", problems(t, s), Warnings(s))
	}
}

func TestR17_ALargerNumberIsAcceptedAndTheCapIsShown(t *testing.T) {
	s := goodSpec()
	s.Workload, s.Replicas, s.UpdatePolicy.MaxUnavailableFixed = Workload{Kind: "consul"}, 7, ptr(3)
	if problems(t, s) != nil || len(Warnings(s)) != 1 || !strings.Contains(Warnings(s)[0], "voter_cap") {
		t.Errorf("problems %v, warnings %v", problems(t, s), Warnings(s))
	}
}

func TestR87_HealthyDeadlineIsLongerThanMinReady(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.MinReadySeconds = ptr(600)
	wantProblem(t, s, "update_policy.healthy_deadline", "R87")
	s.UpdatePolicy.MinReadySeconds = ptr(599)
	if got := problems(t, s); got != nil {
		t.Error(got)
	}
}

func TestR88_ProgressDeadlineIsLongerThanOneSlotNeeds(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.ProgressDeadline = minutes(15)
	wantProblem(t, s, "update_policy.progress_deadline", "R88")
	s.UpdatePolicy.ProgressDeadline = Duration(15*time.Minute + time.Second)
	if got := problems(t, s); got != nil {
		t.Error(got)
	}
}

func TestR79_HeartbeatIsNotLongerThanTheCap(t *testing.T) {
	s := goodSpec()
	s.LifecycleHooks[0].MaxDuration = minutes(1)
	wantProblem(t, s, `lifecycle_hook["drain"].heartbeat_timeout`, "R79")
}

func TestR78_TransitionsThatExist(t *testing.T) {
	s := goodSpec()
	s.LifecycleHooks[0].Transition = "PRE_UPDATE"
	wantProblem(t, s, `lifecycle_hook["drain"].transition`, "R78")
}

func TestR80_ResultsThatExist(t *testing.T) {
	s := goodSpec()
	s.LifecycleHooks[0].DefaultResult = "SHRUG"
	wantProblem(t, s, `lifecycle_hook["drain"].default_result`, "R80")
}

func TestR8_INP10_MinReadyRange(t *testing.T) {
	s := goodSpec()
	s.UpdatePolicy.HealthyDeadline, s.UpdatePolicy.ProgressDeadline = minutes(120), minutes(600)
	for n, ok := range map[int]bool{-1: false, 0: true, 3600: true, 3601: false} {
		s.UpdatePolicy.MinReadySeconds = ptr(n)
		if got := problems(t, s); (got == nil) != ok {
			t.Errorf("min_ready_seconds %d: %v", n, got)
		}
	}
}

func TestR96_TheStepDelayIsBounded(t *testing.T) {
	for delay, ok := range map[time.Duration]bool{0: true, time.Second: true, 24 * time.Hour: true, time.Millisecond: false, -time.Second: false, 25 * time.Hour: false} {
		s := goodSpec()
		s.UpdatePolicy.StepDelay = Duration(delay)
		if ok {
			if got := problems(t, s); got != nil {
				t.Errorf("%s: problems %v", delay, got)
			}
			continue
		}
		wantProblem(t, s, "update_policy.step_delay", "R96")
	}
}
