package lint

import (
	"fmt"
	gopath "path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// reach is the access that a path of the guest gives to the container that mounts it.
type reach string

const (
	reachGuest  reach = "guest"  // the guest agent's socket, which makes quotes and keys
	reachEngine reach = "engine" // a container engine's socket
	reachSystem reach = "system" // the guest's own files
	reachOther  reach = "other"
)

// composeFolder is where the guest keeps the compose file, so where the engine's client
// begins relative paths.
const composeFolder = "/dstack"

var (
	guestPlaces  = []string{"/run/dstack.sock", "/run/tappd.sock", "/run/dstack/dstack.sock", "/run/tappd/tappd.sock"}
	enginePlaces = []string{"/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio", "/var/lib/docker", "/var/lib/containerd"}
	// systemPlaces hold programs, keys or kernel interfaces; /dstack, which the guest keeps
	// at /var/volatile/dstack, and /tapp have the app keys and the decrypted environment,
	// and /var/volatile/overlay is the upper layer of /etc, /usr and /bin. They are named
	// for the message: no other path of the guest is mounted either.
	systemPlaces = []string{composeFolder, "/var/volatile", "/tapp", "/proc", "/sys", "/dev", "/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/root", "/run/systemd", "/run/dbus"}
)

// clean resolves paths as far as possible without the machine: relative paths, the home, dots,
// doubled slashes, and /var/run, which is /run.
func clean(p string) string {
	switch {
	case strings.HasPrefix(p, "/"):
		p = gopath.Clean(p)
	case p == "~" || strings.HasPrefix(p, "~/"):
		p = gopath.Join("/root", p[1:])
	default:
		p = gopath.Join(composeFolder, p)
	}
	if rest, ok := strings.CutPrefix(p, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		p = "/run" + rest
	}
	return p
}

func reachOf(p string) reach {
	p = clean(p)
	base := gopath.Base(p)
	switch {
	case base == "dstack.sock" || base == "tappd.sock" || covers(p, guestPlaces):
		return reachGuest
	case base == "docker.sock" || base == "containerd.sock" || base == "podman.sock" || covers(p, enginePlaces) || within(p, enginePlaces):
		return reachEngine
	case covers(p, systemPlaces) || within(p, systemPlaces):
		return reachSystem
	}
	return reachOther
}

// covers reports that mounting p brings one of places along.
func covers(p string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool {
		return p == "/" || place == p || strings.HasPrefix(place, p+"/")
	})
}

func within(p string, places []string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(p, place+"/") })
}

// mount is one entry of a service's volumes.
type mount struct {
	node           *yaml.Node
	kind           string // bind, volume, tmpfs, image, ...
	source, target string
}

func mountsOf(s service) []mount {
	var out []mount
	for _, item := range items(get(s.node, "volumes")) {
		if item.Kind == yaml.MappingNode {
			out = append(out, mount{item, text(item, "type"), text(item, "source"), text(item, "target")})
			continue
		}
		m := mount{node: item, kind: "volume"}
		source, rest, two := strings.Cut(item.Value, ":")
		if !two {
			m.target = item.Value
			out = append(out, m)
			continue
		}
		m.source, m.target = source, rest
		m.target, _, _ = strings.Cut(m.target, ":")
		if strings.HasPrefix(source, "/") || strings.HasPrefix(source, ".") || strings.HasPrefix(source, "~") {
			m.kind = "bind"
		}
		out = append(out, m)
	}
	return out
}

func (l *linter) mounts(s service) {
	where := s.path("volumes")
	for _, m := range mountsOf(s) {
		switch {
		case m.kind == "image":
			l.pinned(m.node, where, m.source)
		case m.kind == "npipe" || m.kind == "cluster":
			l.add(m.node, where, RuleHostMount, Error, fmt.Sprintf("has the type %q, which a CVM does not have", m.kind), "use a named volume")
		case m.kind == "bind" || strings.HasPrefix(m.source, "/"):
			l.bind(m.node, where, m.source, s.cadre())
		}
	}
	for _, item := range items(get(s.node, "volumes_from")) {
		from, _, _ := strings.Cut(strings.TrimPrefix(item.Value, "container:"), ":")
		if slices.Contains(cadreNames, from) || strings.HasPrefix(item.Value, "container:") {
			l.add(item, s.path("volumes_from"), RuleGuest, Error, fmt.Sprintf("takes the mounts of %s, the guest agent's socket among them", from), "mount the named volumes that are needed")
		}
	}
}

// bind checks a path of the guest that is mounted. Only Cadre's service may have
// the guest agent's socket, and the socket alone, not the folder that it is in.
func (l *linter) bind(n *yaml.Node, where, source string, cadre bool) {
	switch reachOf(source) {
	case reachGuest:
		if cadre && strings.HasPrefix(source, "/") && slices.Contains(guestPlaces, clean(source)) {
			return
		}
		l.add(n, where, RuleGuest, Error, fmt.Sprintf("%s reaches the guest agent's socket, which makes quotes and keys for every client", source),
			"only Cadre's service (named cadre or coordinator) mounts /var/run/dstack.sock")
	case reachEngine:
		l.add(n, where, RuleEngine, Error, fmt.Sprintf("%s reaches the container engine, which starts anything", source), "remove the mount")
	case reachSystem:
		l.add(n, where, RuleHostMount, Error, fmt.Sprintf("%s is the guest's own", source), "use a named volume")
	case reachOther:
		// An error too: which places lead to keys or to another container's files is
		// the guest's to change, so no list of them is whole.
		l.add(n, where, RuleHostMount, Error, fmt.Sprintf("%s is a path of the guest", source), "use a named volume, or a config with literal content for a file")
	}
}

// volumeOptions finds other mounts in the dress of a named volume: driver_opts are
// the arguments of mount(2).
func (l *linter) volumeOptions() {
	pairs(get(l.root, "volumes"), func(key, volume *yaml.Node) {
		where := "volumes." + key.Value
		if driver := text(volume, "driver"); driver != "" && driver != "local" {
			l.add(get(volume, "driver"), where+".driver", RuleUnmeasured, Warning, fmt.Sprintf("%q is a plugin of the machine", driver), "use the local driver")
		}
		opts := get(volume, "driver_opts")
		if opts == nil {
			return
		}
		kind, device := text(opts, "type"), text(opts, "device")
		bind := strings.Contains(text(opts, "o"), "bind") || kind == "none" || kind == "bind"
		switch {
		case bind && !strings.HasPrefix(device, "/"):
			l.add(opts, where+".driver_opts", RuleHostMount, Error, fmt.Sprintf("binds %q, which is resolved in the engine's folder", device), "use a volume without options")
		case strings.HasPrefix(device, "/"):
			l.bind(get(opts, "device"), where+".driver_opts.device", device, false)
		case kind == "nfs" || kind == "cifs":
			l.add(opts, where+".driver_opts", RuleUnmeasured, Warning, "mounts a file system of another machine", "reach it by an attested peer")
		case kind != "" && kind != "tmpfs":
			l.add(opts, where+".driver_opts", RuleHostMount, Error, fmt.Sprintf("mounts a file system of type %q", kind), "use tmpfs, or a volume without options")
		}
	})
}
