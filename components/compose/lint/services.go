package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"cadre.dev/core/group"
	"cadre.dev/exec/declared"
)

// serviceRules run on each service, in this order.
var serviceRules = []func(*linter, service){
	(*linter).image, (*linter).notMeasured, (*linter).privileges, (*linter).namespaces, (*linter).capabilities,
	(*linter).devices, (*linter).mounts, (*linter).environment, (*linter).ports, (*linter).listeners, (*linter).habits, (*linter).restart, (*linter).mark,
}

func (l *linter) readServices() {
	_, list := entry(l.root, "services")
	if list == nil || list.Kind != yaml.MappingNode || len(list.Content) == 0 {
		l.add(list, "services", RuleSchema, Error, "is not there or empty", "write at least one service")
		return
	}
	pairs(list, func(key, value *yaml.Node) {
		if value.Kind != yaml.MappingNode {
			l.add(value, "services."+key.Value, RuleSchema, Error, "is not a mapping of keys", "write the service as a block")
			return
		}
		l.services = append(l.services, service{name: key.Value, node: value})
	})
}

const pinFix = "run `cadre compose pin`, or append @sha256:<64 hex digits>"

func (l *linter) image(s service) {
	if key, _ := entry(s.node, "build"); key != nil {
		l.add(key, s.path("build"), RuleBuild, Error, "builds an image on the machine; its content is not measured", "push the image and name it by digest")
	}
	key, value := entry(s.node, "image")
	switch {
	case key == nil:
		if get(s.node, "build") == nil && get(s.node, "<<") == nil {
			l.add(s.node, "services."+s.name, RuleImage, Error, "names no image", "add image: name@sha256:<64 hex digits>")
		}
		return
	case value.Kind != yaml.ScalarNode:
		l.add(value, s.path("image"), RuleImage, Error, "is not one word", pinFix)
		return
	}
	l.pinned(value, s.path("image"), value.Value)
	switch text(s.node, "pull_policy") {
	case "build":
		l.add(get(s.node, "pull_policy"), s.path("pull_policy"), RulePull, Error, "builds an image on the machine", "remove the key: a digest is pulled once")
	case "never":
		l.add(get(s.node, "pull_policy"), s.path("pull_policy"), RulePull, Warning, "never pulls, and a new CVM has no image", "remove the key: a digest is pulled once")
	}
}

// pinned refuses an image that is not a literal with a digest.
func (l *linter) pinned(n *yaml.Node, where, image string) {
	if v := variable(image); v != "" {
		l.add(n, where, RuleImage, Error, fmt.Sprintf("is %q: %s comes from the environment, which is not measured, so the hash does not fix the code", image, v), "write the image out with its digest")
		return
	}
	if problem := group.ImageProblem(image); problem != "" {
		what, _, _ := strings.Cut(problem, ": ")
		l.add(n, where, RuleImage, Error, fmt.Sprintf("is %q, which %s, so the hash does not fix the code", image, what), pinFix)
	}
}

// notMeasured refuses keys that take content from outside of the text.
func (l *linter) notMeasured(s service) {
	for key, what := range map[string]string{
		"extends":         "takes keys from another service or file",
		"env_file":        "reads variables from a file that is not measured",
		"label_file":      "reads labels from a file that is not measured",
		"provider":        "runs a program of the machine in place of a container",
		"credential_spec": "reads a file that is not measured",
		"develop":         "copies files of the machine into the container",
		"models":          modelProblem,
	} {
		if k, _ := entry(s.node, key); k != nil {
			l.add(k, s.path(key), RuleUnmeasured, Error, what, "write the content into the compose file")
		}
	}
	if k, v := entry(s.node, "use_api_socket"); k != nil && v.Value != "false" {
		l.add(k, s.path("use_api_socket"), RuleEngine, Error, "gives the container the engine's socket, which starts anything", "remove the key")
	}
	for _, key := range []string{"runtime", "volume_driver", "external_links"} {
		if k, _ := entry(s.node, key); k != nil {
			l.add(k, s.path(key), RuleUnmeasured, Warning, "depends on what is installed or runs on the machine", "remove the key")
		}
	}
}

func (l *linter) privileges(s service) {
	l.privileged(s.node, s.path("privileged"))
	for _, hook := range []string{"post_start", "pre_stop"} {
		for i, item := range items(get(s.node, hook)) {
			l.privileged(item, fmt.Sprintf("%s.%d.privileged", s.path(hook), i))
		}
	}
	for _, opt := range items(get(s.node, "security_opt")) {
		v := strings.ReplaceAll(opt.Value, "=", ":")
		switch {
		case strings.HasSuffix(v, ":unconfined"), v == "no-new-privileges:false", v == "label:disable", v == "systempaths:unconfined":
			l.add(opt, s.path("security_opt"), RuleSecurity, Warning, fmt.Sprintf("%q takes confinement away", opt.Value), "remove it")
		}
	}
}

func (l *linter) privileged(n *yaml.Node, where string) {
	if v := get(n, "privileged"); v != nil && v.Value != "false" {
		l.add(v, where, RulePrivileged, Error, "lets the container reach every device and file of the guest, the guest agent too", "remove it; name single capabilities under cap_add")
	}
}

// namespaces: sharing one with the guest or with Cadre's service leads to the
// guest agent's socket, e.g. by /proc/<pid>/root. The network may be shared.
func (l *linter) namespaces(s service) {
	for _, key := range []string{"pid", "ipc", "userns_mode", "cgroup", "uts"} {
		v := get(s.node, key)
		if v == nil {
			continue
		}
		other, isService := strings.CutPrefix(v.Value, "service:")
		switch {
		case key == "pid" && v.Value == "host", key == "ipc" && v.Value == "host",
			strings.HasPrefix(v.Value, "container:"), isService && slices.Contains(cadreNames, other):
			l.add(v, s.path(key), RuleNamespace, Error, fmt.Sprintf("%q shares a namespace that leads to the guest agent", v.Value), "remove it")
		case v.Value == "host":
			l.add(v, s.path(key), RuleNamespace, Warning, "shares a namespace with the guest", "remove it")
		}
	}
}

var (
	// mightyCapabilities amount to the guest's root.
	mightyCapabilities = []string{"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "DAC_READ_SEARCH", "SYS_BOOT"}
	// strongCapabilities reach beyond the container in some settings.
	strongCapabilities = []string{"SYS_PTRACE", "NET_ADMIN", "BPF", "PERFMON", "MKNOD", "SYSLOG", "MAC_ADMIN", "MAC_OVERRIDE"}
)

func (l *linter) capabilities(s service) {
	for _, item := range items(get(s.node, "cap_add")) {
		name := strings.TrimPrefix(strings.ToUpper(item.Value), "CAP_")
		switch {
		case slices.Contains(mightyCapabilities, name):
			l.add(item, s.path("cap_add"), RuleCapability, Error, fmt.Sprintf("%s amounts to root of the guest, so to the guest agent", item.Value), "remove it")
		case slices.Contains(strongCapabilities, name):
			l.add(item, s.path("cap_add"), RuleCapability, Warning, fmt.Sprintf("%s can reach beyond the container", item.Value), "remove it unless the program needs it")
		}
	}
}

// forbiddenDevices make quotes, or hold the guest's system.
var forbiddenDevices = []string{"tdx", "tpm", "mem", "kmem", "kmsg", "port", "vd", "sd", "xvd", "sr", "nvme", "pmem", "md", "dm-", "mapper", "disk", "block", "char",
	"root", "zd", "zfs", "loop", "fuse", "kvm", "vhost"}

func (l *linter) devices(s service) {
	for _, item := range items(get(s.node, "devices")) {
		source := text(item, "source")
		if item.Kind == yaml.ScalarNode {
			source, _, _ = strings.Cut(item.Value, ":")
		}
		name, below := strings.CutPrefix(clean(source), "/dev/")
		// A path elsewhere is a detour to /dev; "vendor/class=name" is no path.
		detour := !below && (strings.HasPrefix(source, "/") || !strings.Contains(source, "="))
		if detour || slices.ContainsFunc(forbiddenDevices, func(p string) bool { return strings.HasPrefix(name, p) }) {
			l.add(item, s.path("devices"), RuleDevice, Error, fmt.Sprintf("%s makes quotes or holds the guest's own data", source), "remove it: only Cadre's service asks for quotes, by the guest agent")
			continue
		}
		l.add(item, s.path("devices"), RuleDevice, Warning, fmt.Sprintf("%s is a device of the guest", source), "remove it unless the program needs it")
	}
	if k, v := entry(s.node, "device_cgroup_rules"); k != nil {
		l.add(v, s.path("device_cgroup_rules"), RuleDevice, Error, "opens devices by number", "name the device under devices")
	}
}

// habits: keys that are legal and surprise.
func (l *linter) habits(s service) {
	if k, v := entry(s.node, "profiles"); k != nil {
		l.add(v, s.path("profiles"), RuleProfile, Warning, "starts the service only with COMPOSE_PROFILES, which must not come from outside", "remove the key")
	}
	// A check of the agent gives up after a number of tries. Compose then never starts this
	// service, even if the agent becomes healthy a moment later.
	dependencies := get(s.node, "depends_on")
	for _, name := range cadreNames {
		if on := get(dependencies, name); text(on, "condition") == "service_healthy" {
			l.add(on, s.path("depends_on."+name), RuleBudget, Warning, "starts only if a check passes in time, and stays down after a slow boot",
				"start with "+declared.Waiter+", which waits without end, and remove the dependency")
		}
	}
}

// restart: a guest keeps its containers on the data disk, and the engine starts the previous boot's
// containers before it reads the compose file. The init script removes them. These policies would
// bring them back after every boot without the script.
func (l *linter) restart(s service) {
	at, path, word := get(s.node, "restart"), "restart", text(s.node, "restart")
	if at == nil {
		if policy := get(get(s.node, "deploy"), "restart_policy"); policy != nil {
			// Compose takes one without a condition for "any".
			at, path, word = policy, "deploy.restart_policy", cmp.Or(text(policy, "condition"), "any")
		}
	}
	word, _, _ = strings.Cut(word, ":")
	switch word {
	case "always", "on-failure", "any":
		l.add(at, s.path(path), RuleRestart, Warning, "brings the container of an earlier revision back after a clean stop",
			"write restart: unless-stopped, which starts the service again after a crash")
	}
}
