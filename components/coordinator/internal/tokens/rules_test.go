package tokens

import (
	"regexp"
	"strings"
	"testing"

	"cadre.dev/core/group"
	"cadre.dev/store"
)

// golden has all generated rules.
var golden = map[string]struct{ got, want string }{
	"coordinator": {coordinatorRules("coordinator-0"), `node "coordinator-0" { policy = "write" }
agent "coordinator-0" { policy = "write" }
node_prefix "" { policy = "read" }
service_prefix "" { policy = "read" }
`},
	"workload none": {workloadRules(group.Spec{Name: "web", Workload: group.Workload{Kind: group.WorkloadNone}}, "web-0"), `node_prefix "" { policy = "read" }
node_prefix "cadre.lease-" { policy = "deny" }
service_prefix "" { policy = "read" }
`},
	"workload etcd": {workloadRules(group.Spec{Name: "kv", Workload: group.Workload{Kind: "etcd"}}, "kv-0"), `node_prefix "" { policy = "read" }
node_prefix "cadre.lease-" { policy = "deny" }
service_prefix "" { policy = "read" }
`},
	"workload patroni": {workloadRules(group.Spec{Name: "pg", Workload: group.Workload{Kind: group.WorkloadPatroni}}, "pg-1"), `node_prefix "" { policy = "read" }
node_prefix "cadre.lease-" { policy = "deny" }
service_prefix "" { policy = "read" }
key_prefix "service/pg/" { policy = "write" }
session "pg-1" { policy = "write" }
`},
	"workload that asks for keys": {workloadRules(group.Spec{Name: "web", ConsulPermissions: group.ConsulPermissions{
		KeyPrefixes: []string{"service/web/state/", "service/web/locks/", "service/web/locks/", "service/webs/", "service/", ""}, SessionWrite: true,
	}}, "web-0"), `node_prefix "" { policy = "read" }
node_prefix "cadre.lease-" { policy = "deny" }
service_prefix "" { policy = "read" }
key_prefix "service/web/locks/" { policy = "write" }
key_prefix "service/web/state/" { policy = "write" }
session "web-0" { policy = "write" }
`},
	"patroni with a request within its rights": {workloadRules(group.Spec{Name: "pg", Workload: group.Workload{Kind: group.WorkloadPatroni}, ConsulPermissions: group.ConsulPermissions{
		KeyPrefixes: []string{"service/pg/"}, SessionWrite: true,
	}}, "pg-1"), `node_prefix "" { policy = "read" }
node_prefix "cadre.lease-" { policy = "deny" }
service_prefix "" { policy = "read" }
key_prefix "service/pg/" { policy = "write" }
session "pg-1" { policy = "write" }
`},
	"operator": {store.RoleRules(store.DefaultPrefix, store.RoleAdmin, nil, []string{"pg", "web"}), `key_prefix "cadre/v1/" { policy = "read" }
node_prefix "" { policy = "read" }
service_prefix "" { policy = "read" }
agent_prefix "" { policy = "read" }
session_prefix "" { policy = "read" }
operator = "read"
key_prefix "cadre/v1/control/" { policy = "write" }
key "cadre/v1/groups/pg/spec" { policy = "write" }
key "cadre/v1/groups/web/spec" { policy = "write" }
`},
}

func TestTOK05_GeneratedRules(t *testing.T) {
	for name, c := range golden {
		if c.got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

var ruleForm = regexp.MustCompile(`^(\w+?)(_prefix)? (?:"([^"]*)" \{ policy = "(read|write|deny)" \}|= "(read)")$`)

// TestTOK05_NoRuleIsBroad is a lint: write access is to exact names or to prefixes that end with a
// separator, and never to ACLs.
func TestTOK05_NoRuleIsBroad(t *testing.T) {
	for name, c := range golden {
		for line := range strings.Lines(c.got) {
			m := ruleForm.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
			if m == nil {
				t.Errorf("%s: %q is of no known form", name, line)
				continue
			}
			resource, prefix, segment, access := m[1], m[2] != "", m[3], m[4]+m[5]
			if access == "write" && (segment == "" || prefix && !strings.HasSuffix(segment, "/")) {
				t.Errorf("%s: %q writes more than it names", name, line)
			}
			if prefix && resource == "key" && !strings.HasSuffix(segment, "/") {
				t.Errorf("%s: %q reads more than it names", name, line)
			}
			if resource == "acl" || resource == "keyring" || resource == "operator" && access == "write" || resource == "mesh" {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

func TestPoliciesOfASlot(t *testing.T) {
	for name, want := range map[string]bool{
		policyName("agent", "pg-1", "r"): true, policyName("workload", "pg-1", "r"): true, "cadre-agent-pg-1": true,
		policyName("agent", "pg-10", "r"): false, policyName("agent", "pg", "r"): false, "cadre-agent-pg-1-0": false,
		policyName("coordinator", "pg-1", "r"): false, "other": false,
	} {
		if got := ofSlot(name, "pg-1"); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
