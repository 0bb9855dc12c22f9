package declared

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// within reports that a place of a container is Folder or below it.
func within(target string) bool {
	return target == Folder || strings.HasPrefix(target, Folder+"/")
}

// others checks that no third service can reach the folder.
func (r *reader) others(s named, owner map[string]string) {
	for _, m := range mountsOf(s) {
		switch of := owner[m.source]; {
		case of != "" && (s.name != of && s.name != Agent || !within(m.target)):
			r.refuse(m.node, s.path("volumes"), fmt.Sprintf("has the folder of the commands of %s, which is for it and the agent alone", of), "remove the mount")
		case m.bind && len(owner) > 0 && s.name != Agent:
			r.refuse(m.node, s.path("volumes"), fmt.Sprintf("has %s, a path of the guest, where the engine keeps the folders of commands", m.source), "use a named volume")
		}
	}
	if from := get(s.node, "volumes_from"); from != nil && len(owner) > 0 {
		r.refuse(from, s.path("volumes_from"), "can bring folders of commands along", "mount the named volumes that are needed")
	}
	r.covered(s)
	r.processes(s)
}

// processes checks shared process namespaces. /proc/<pid>/root of a process is its container's
// files, so a service that shares processes with the agent, or with a service that has a folder of
// commands, can reach the folder. It does not matter which of the two declares the sharing. The IPC
// namespace holds neither processes nor files, so it may be shared.
func (r *reader) processes(s named) {
	at, v := entry(s.node, "pid")
	if at == nil || len(r.out.Exec) == 0 {
		return
	}
	of, service := strings.CutPrefix(v.Value, "service:")
	switch {
	case r.out.Exec[s.name] != nil || s.name == Agent:
		r.refuse(v, s.path("pid"), "shares the processes of a service that has a folder of commands", "remove it")
	case !service || r.out.Exec[of] != nil || of == Agent:
		r.refuse(v, s.path("pid"), "leads to folders of commands", "remove it, or name a service without commands that is not "+Agent)
	}
}

// covered checks that a service mounts only its volume in Folder.
func (r *reader) covered(s named) {
	for _, section := range []struct{ key, base string }{{"secrets", "/run/secrets/"}, {"configs", "/"}} {
		items(get(s.node, section.key), func(item *yaml.Node) {
			target := text(item, "target")
			if target == "" {
				target = item.Value + text(item, "source")
			}
			if !strings.HasPrefix(target, "/") {
				target = section.base + target
			}
			r.cover(item, s.path(section.key), target)
		})
	}
	items(get(s.node, "tmpfs"), func(item *yaml.Node) {
		target, _, _ := strings.Cut(item.Value, ":")
		r.cover(item, s.path("tmpfs"), target)
	})
}

func (r *reader) cover(n *yaml.Node, where, target string) {
	if within(clean(target)) {
		r.refuse(n, where, "stands in "+Folder+", where only volumes for commands may be mounted", "put it elsewhere")
	}
}

// files checks secrets and configs: compose binds their file, of any kind.
func (r *reader) files() {
	for _, section := range []string{"secrets", "configs"} {
		each(get(r.root, section), func(key, v *yaml.Node) {
			if at, _ := entry(v, "file"); at != nil {
				r.refuse(at, section+"."+key.Value+".file", "is a path of the guest, where the engine keeps the folders of commands", "write literal content under configs")
			}
		})
	}
}

// aliases checks the volumes' names and options: the engine knows volumes by name, and two keys can
// have the same name; by its options a volume can be any folder.
func (r *reader) aliases(owner map[string]string) {
	each(get(r.root, "volumes"), func(key, v *yaml.Node) {
		if owner[key.Value] != "" {
			return // volume has judged it
		}
		where := "volumes." + key.Value + "."
		for _, k := range []string{"name", "external"} {
			if at, _ := entry(v, k); at != nil {
				r.refuse(at, where+k, "can make it the same volume as a volume that carries commands", "remove it")
			}
		}
		if driver := get(v, "driver"); driver != nil && driver.Value != "local" {
			r.refuse(driver, where+"driver", "can be any folder, also a folder that carries commands", "use the local driver")
		}
		if opts := get(v, "driver_opts"); opts != nil && (text(opts, "type") != "tmpfs" || strings.Contains(text(opts, "o"), "bind")) {
			r.refuse(opts, where+"driver_opts", "can make it any folder, also a folder that carries commands", "remove them, or write { type: tmpfs, device: tmpfs }")
		}
	})
}

// items are the elements of a list, or a single value as one element.
func items(n *yaml.Node, fn func(item *yaml.Node)) {
	switch {
	case n == nil:
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			fn(deref(item))
		}
	case n.Kind == yaml.ScalarNode:
		fn(n)
	}
}
