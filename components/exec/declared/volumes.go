package declared

import (
	"fmt"
	gopath "path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// mount is a mount of a service at or below Folder, or of a volume that carries commands.
type mount struct {
	service  string
	node     *yaml.Node
	source   string
	bind     bool // the source is a path of the guest
	target   string
	readOnly bool
}

func mountsOf(s named) []mount {
	var out []mount
	list := get(s.node, "volumes")
	if list == nil || list.Kind != yaml.SequenceNode {
		return nil
	}
	for _, item := range list.Content {
		item = deref(item)
		m := mount{service: s.name, node: item}
		if item.Kind == yaml.MappingNode {
			m.source, m.target, m.readOnly = text(item, "source"), text(item, "target"), text(item, "read_only") == "true"
		} else {
			parts := strings.SplitN(item.Value, ":", 3)
			if len(parts) == 1 {
				m.target = parts[0]
			} else {
				m.source, m.target = parts[0], parts[1]
			}
			m.readOnly = len(parts) == 3 && strings.HasPrefix(","+parts[2]+",", ",ro,")
		}
		m.bind = text(item, "type") == "bind" || m.source != "" && strings.Contains("/.~", m.source[:1])
		m.target = clean(m.target)
		out = append(out, m)
	}
	return out
}

// clean is a place of a container without dots and doubled slashes.
func clean(target string) string {
	target = gopath.Clean(target)
	if rest, ok := strings.CutPrefix(target, "/var/run"); ok && (rest == "" || rest[0] == '/') {
		target = "/run" + rest // which is the same folder
	}
	return target
}

// volumes checks that each service with commands shares one folder in memory with the agent, and
// with no other service.
func (r *reader) volumes() {
	owner := map[string]string{} // service by volume
	seen := map[string]bool{}    // "service" and "agent:service"
	for _, s := range r.services {
		for _, m := range mountsOf(s) {
			r.place(m, owner, seen)
		}
	}
	for _, s := range r.services {
		if r.out.Exec[s.name] != nil {
			r.shared(s, seen)
		}
		r.others(s, owner)
	}
	if len(owner) > 0 {
		r.aliases(owner)
		r.files()
	}
}

// place checks a mount at or below Folder.
func (r *reader) place(m mount, owner map[string]string, seen map[string]bool) {
	if !within(m.target) {
		return
	}
	where := "services." + m.service + ".volumes"
	service, below := strings.CutPrefix(m.target, Folder+"/")
	switch {
	case m.service == Agent && below && r.out.Exec[service] != nil:
		seen["agent:"+service] = true
	case m.service != Agent && !below && r.out.Exec[m.service] != nil:
		service = m.service
		seen[service] = true
		if m.readOnly {
			r.refuse(m.node, where, "is read-only, and the service makes its socket there", "remove ro")
		}
	default:
		r.refuse(m.node, where, "stands in "+Folder+", which is for services with commands", fmt.Sprintf("mount it at %s in a service with %s, and at %s/<service> in %s", Folder, Key, Folder, Agent))
		return
	}
	if was := owner[m.source]; was != "" && was != service {
		r.refuse(m.node, where, fmt.Sprintf("shares the volume %q with the commands of %s", m.source, was), "give each service with commands a volume of its own")
	}
	owner[m.source] = service
	r.volume(m, where)
}

// volume: in memory, and nothing that another name could mean as well.
func (r *reader) volume(m mount, where string) {
	key, v := entry(get(r.root, "volumes"), m.source)
	if m.source == "" || key == nil {
		r.refuse(m.node, where, fmt.Sprintf("has %q, which is no volume of this text", m.source), "declare it under volumes")
		return
	}
	opts := get(v, "driver_opts")
	if text(opts, "type") != "tmpfs" || text(opts, "device") != "tmpfs" || strings.Contains(text(opts, "o"), "bind") {
		r.refuse(key, "volumes."+m.source, "carries commands and is not in memory", "add driver_opts: { type: tmpfs, device: tmpfs }")
	}
	each(v, func(k, value *yaml.Node) {
		if k.Value != "driver_opts" && (k.Value != "driver" || value.Value != "local") {
			r.refuse(k, "volumes."+m.source+"."+k.Value, "is not for a volume that carries commands", "remove it")
		}
	})
}

// shared checks that the service and the agent both mount the folder, from one volume.
func (r *reader) shared(s named, seen map[string]bool) {
	at, _ := entry(s.node, Key)
	if !seen[s.name] {
		r.refuse(at, s.path("volumes"), "has no folder for commands", "mount a tmpfs volume of its own at "+Folder)
	}
	if !seen["agent:"+s.name] {
		r.refuse(at, "services."+Agent+".volumes", "has no folder for the commands of "+s.name, "mount the same volume at "+Folder+"/"+s.name)
	}
	sources := map[string]bool{}
	for _, other := range r.services {
		for _, m := range mountsOf(other) {
			if other.name == s.name && m.target == Folder || other.name == Agent && m.target == Folder+"/"+s.name {
				sources[m.source] = true
			}
		}
	}
	if len(sources) > 1 {
		r.refuse(at, s.path("volumes"), "and the agent have different volumes for the commands of "+s.name, "mount one volume in both")
	}
}
