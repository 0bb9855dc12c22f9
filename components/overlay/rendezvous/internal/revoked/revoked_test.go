package revoked

import (
	"fmt"
	"testing"
	"time"

	"cadre.dev/overlay/internal/identity"
	"cadre.dev/overlay/internal/mailbox"
	"cadre.dev/overlay/rendezvous/internal/member"
)

func coordinator(slot, boot string) member.Member {
	return member.Member{ID: identity.ID{Cluster: "c", Group: "coordinator", Slot: slot}, Boot: boot}
}

func has(l *List, boot string) bool {
	return l.Has(member.Member{ID: identity.ID{Cluster: "c", Group: "db", Slot: "db-0"}, Boot: boot})
}

func TestOnlyTheReporterTakesABootBack(t *testing.T) {
	var l List
	now := time.Now()
	a, b := coordinator("coordinator-0", "1"), coordinator("coordinator-1", "2")
	l.Replace(a, []string{"x", "y"}, now)
	l.Replace(b, []string{"x"}, now)
	l.Replace(b, nil, now)
	if !has(&l, "x") || !has(&l, "y") {
		t.Error("another coordinator took a boot back")
	}
	l.Replace(coordinator("coordinator-0", "3"), nil, now)
	if !has(&l, "x") {
		t.Error("a coordinator that restarted took a boot back")
	}
	l.Replace(a, []string{"y"}, now)
	if has(&l, "x") || !has(&l, "y") {
		t.Error("the newest list does not replace the one before")
	}
	if l.Has(member.Member{ID: identity.ID{Cluster: "other"}, Boot: "y"}) {
		t.Error("a boot of another cluster has ended")
	}
	for i := range mostNamed + 1 {
		l.Replace(coordinator("coordinator-0", fmt.Sprint("n", i)), []string{"z"}, now)
	}
	for i := range mostNamed + 1 {
		l.Replace(coordinator("coordinator-0", fmt.Sprint("n", i)), nil, now)
	}
	if !has(&l, "z") {
		t.Error("more coordinators than are remembered took a boot back")
	}
}

func TestAFullListTakesNothingBack(t *testing.T) {
	var l List
	now := time.Now()
	a := coordinator("coordinator-0", "1")
	l.Replace(a, []string{"old"}, now)
	var full []string
	for i := range mailbox.MaxRevoked {
		full = append(full, fmt.Sprint(i))
	}
	l.Replace(a, full, now)
	l.Replace(a, full[1:], now)
	if !has(&l, "old") {
		t.Error("a boot that fell off a full list is let in again")
	}
	if has(&l, "0") {
		t.Error("a boot that was taken back stays out")
	}
	l.Replace(a, nil, now.Add(memory+time.Second))
	if has(&l, "old") {
		t.Error("a boot is remembered without end")
	}
}
