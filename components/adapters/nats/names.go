package nats

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
)

// A server is named SLOT, or SLOT_XXX with three hexadecimal digits that each disk has for itself. A
// peer's id is a hash of the name. After a restart a server knows absent peers by their ids alone, so
// that the adapter looks for the name behind an id.

// tags is the number of texts that follow SLOT_.
const tags = 1 << 12

// maxOrdinal bounds the search; a meta group has few peers.
const maxOrdinal = 32

// slotOf is the slot of a server's name; slots have no underscore.
func slotOf(server string) string {
	slot, _, _ := strings.Cut(server, "_")
	return slot
}

// idOf is nats-server's id of a peer.
func idOf(server string) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	sum := sha256.Sum256([]byte(server))
	id := make([]byte, 8)
	for i := range id {
		id[i] = digits[int(sum[i])%len(digits)]
	}
	return string(id)
}

// names finds the servers of one group by their ids. Safe for concurrent use.
type names struct {
	prefix string
	mu     sync.Mutex
	found  map[string]string // "" where no name fits
}

// newNames is for the group of slot.
func newNames(slot string) *names {
	return &names{prefix: slot[:strings.LastIndexByte(slot, '-')+1], found: map[string]string{}}
}

// of returns the server with that id, "" if the search finds none.
func (n *names) of(id string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, searched := n.found[id]
	if !searched {
		name = n.search(id)
		if len(n.found) < 1000 { // ids come from the servers
			n.found[id] = name
		}
	}
	return name
}

func (n *names) search(id string) string {
	for ordinal := range maxOrdinal {
		slot := fmt.Sprintf("%s%d", n.prefix, ordinal)
		if idOf(slot) == id {
			return slot
		}
		for tag := range tags {
			if name := fmt.Sprintf("%s_%03x", slot, tag); idOf(name) == id {
				return name
			}
		}
	}
	return ""
}

// complete names the peers whose names the server does not know.
func (n *names) complete(peers []peer) {
	for i, p := range peers {
		if !p.known() {
			if name := n.of(p.ID); name != "" {
				peers[i].Name = name
			}
		}
	}
}
