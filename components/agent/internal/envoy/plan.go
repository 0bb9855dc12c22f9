package envoy

import (
	"maps"
	"slices"
)

// todo is what to do about all proxies.
type todo struct {
	// stop names the keepers that are to end, start the proxies that want one. What is in
	// both is started when the one before has ended.
	stop  []string
	start []Proxy
	// sweep are folders that no proxy has: one of an earlier worker.
	sweep []string
}

// plan compares what is wanted with what is kept and with the folders that are there. nil is
// not yet told: then nothing is touched that an earlier worker may have left for good reason.
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

// found is what is in a proxy's folder before anything is started there.
type found struct {
	// held: a process has the lock.
	held bool
	// answers: it is an Envoy that answered at the admin socket.
	answers bool
	// Whether it runs what would be started: program and arguments, bootstrap, node.
	sameCommand, sameBootstrap, sameNode bool
	draining                             bool
}

// verdict is what follows from what was found.
type verdict int

const (
	startNew verdict = iota
	takeOver
	replace
)

// verdict says what to do, and of a replacement why.
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
