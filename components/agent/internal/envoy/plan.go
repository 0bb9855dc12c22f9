package envoy

import (
	"maps"
	"slices"
)

// todo lists the next actions for all proxies.
type todo struct {
	// stop names the keepers that must end, start the proxies to start. A proxy in both is started
	// when its previous keeper has ended.
	stop  []string
	start []Proxy
	// sweep are folders that no proxy has: one of an earlier worker.
	sweep []string
}

// plan compares the wanted proxies with the running ones and with the existing folders. A nil
// wanted is not known yet: then plan leaves the Envoys of an earlier worker alone.
func plan(wanted map[string]Proxy, keeping map[string]Proxy, folders []string) todo {
	var out todo
	if wanted == nil {
		return out
	}
	used := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(keeping)) {
		used[folderName(id)] = true
		if wanted[id] != keeping[id] {
			out.stop = append(out.stop, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		used[folderName(id)] = true
		if had, is := keeping[id]; !is || had != wanted[id] {
			out.start = append(out.start, wanted[id])
		}
	}
	for _, name := range folders {
		if !used[name] {
			out.sweep = append(out.sweep, name)
		}
	}
	return out
}

// found is the state of a proxy's folder before a start.
type found struct {
	// held: a process has the lock.
	held bool
	// answers: it is an Envoy that answered at the admin socket.
	answers bool
	// The running Envoy equals the one to start: program and arguments, bootstrap, node.
	sameCommand, sameBootstrap, sameNode bool
	draining                             bool
}

// verdict is the decision about a found Envoy.
type verdict int

const (
	startNew verdict = iota
	takeOver
	replace
)

// verdict returns the decision, and the reason of a replacement.
func (f found) verdict() (verdict, string) {
	switch {
	case !f.held:
		return startNew, ""
	case !f.answers:
		return replace, "it does not answer"
	case !f.sameCommand:
		return replace, "it was started otherwise"
	case !f.sameBootstrap, !f.sameNode:
		return replace, "its bootstrap differs"
	case f.draining:
		// Its listeners do not come back, and it is wanted.
		return replace, "it was drained"
	}
	return takeOver, ""
}
