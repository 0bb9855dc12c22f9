package secrets

import (
	"time"

	"cadre.dev/store"
)

// Times of the gossip key's rotation.
const (
	// GossipEvery is how long a gossip key is used when nobody asks for another.
	GossipEvery = 24 * time.Hour
)

// Who asks for what happens by itself.
const (
	bySchedule  = "schedule"
	reasonFirst = "first seen"
	reasonDue   = "its time is over"
)

// begin is the record of a secret that is seen for the first time.
func begin(group, name string, now time.Time) store.SecretRecord {
	return store.SecretRecord{Group: group, Name: name, Epoch: firstEpoch, RotatedAt: now, Reason: reasonFirst}
}

// due reports whether a secret is to get a new epoch now, and why. every is 0 when
// it is rotated on request only.
func due(rec store.SecretRecord, asked *store.RotateRequest, every time.Duration, now time.Time) (reason, by string, yes bool) {
	switch {
	case asked != nil:
		return asked.Reason, asked.By, true
	case every > 0 && now.Sub(rec.RotatedAt) >= every:
		return reasonDue, bySchedule, true
	}
	return "", "", false
}

// raise is the record with the next epoch in force.
func raise(rec store.SecretRecord, reason, by string, now time.Time) store.SecretRecord {
	rec.Epoch++
	rec.RotatedAt, rec.Reason, rec.By = now, clip(reason), clip(by)
	return rec
}

// start is the gossip key's record at the begin of a rotation.
func start(rec store.SecretRecord, reason, by string, now time.Time) store.SecretRecord {
	rec.Next = rec.Epoch + 1
	rec.Step, rec.StepSince = store.RotationInstall, now
	rec.Reason, rec.By = clip(reason), clip(by)
	return rec
}

// Ring is what the live members of the gossip pool say that they hold.
type Ring struct {
	Members int
	// Holding and Primary count members by the epoch of the key that they hold and
	// that they send with.
	Holding, Primary map[uint32]int
	// Others counts the keys of no epoch that the record names.
	Others int
}

// only reports whether every live member holds the key of epoch and no other, and sends
// with it.
func (r Ring) only(epoch uint32) bool {
	others := r.Others
	for e, members := range r.Holding {
		if e != epoch {
			others += members
		}
	}
	return r.Members > 0 && r.Primary[epoch] == r.Members && others == 0
}

// advance is the record after a step was carried out, by what the ring says then.
// It is the same record while the step has not had its effect on every member, and
// then the step is repeated. waiting is how many admitted members do not have the
// key in force yet.
//
//	rest ─start─► install ─all hold Next─► use ─all send with Next─► settle ─► remove ─nobody holds another─► rest
func advance(rec store.SecretRecord, ring Ring, now time.Time) store.SecretRecord {
	to := func(step store.RotationStep) { rec.Step, rec.StepSince = step, now }
	switch rec.Step {
	case store.RotationInstall:
		if ring.Members > 0 && ring.Holding[rec.Next] == ring.Members {
			to(store.RotationUse)
		}
	case store.RotationUse:
		// Only when everybody sends with it can a server live with this key alone, so only
		// then does one that starts begin with it.
		if ring.Members > 0 && ring.Primary[rec.Next] == ring.Members {
			rec.Previous, rec.Epoch, rec.Next = rec.Epoch, rec.Next, 0
			rec.RotatedAt = now
			to(store.RotationSettle)
		}
	case store.RotationSettle:
		to(store.RotationRemove)
	case store.RotationRemove:
		if ring.only(rec.Epoch) {
			rec.Previous, rec.PreviousUntil = 0, time.Time{}
			to(store.RotationRest)
			rec.StepSince = time.Time{}
		}
	case store.RotationRest:
	}
	return rec
}

// finish is the record at rest when the ring is not as it should be then: the last
// rotation's last step is carried out again.
func finish(rec store.SecretRecord, now time.Time) store.SecretRecord {
	rec.Step, rec.StepSince = store.RotationRemove, now
	return rec
}

// clip bounds what people wrote: the record must always fit.
func clip(text string) string {
	const limit = 500
	if len(text) > limit {
		return text[:limit]
	}
	return text
}
