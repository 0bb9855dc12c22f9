package secrets

import (
	"time"

	"cadre.dev/store"
)

// Times of the gossip key's rotation.
const (
	// GossipEvery is the rotation interval of a gossip key without requests.
	GossipEvery = 24 * time.Hour
)

// By and reasons of automatic changes.
const (
	bySchedule  = "schedule"
	reasonFirst = "first seen"
	reasonDue   = "its time is over"
	// reasonRemoved: the declaration of an operator's secret is gone, and with it the value.
	reasonRemoved = "no longer declared"
)

// begin returns the record of a new secret.
func begin(group, name string, now time.Time) store.SecretRecord {
	return store.SecretRecord{Group: group, Name: name, Epoch: firstEpoch, RotatedAt: now, Reason: reasonFirst}
}

// due reports whether a secret needs a new epoch now, and why. every is 0 for rotation on request
// only.
func due(rec store.SecretRecord, asked *store.RotateRequest, every time.Duration, now time.Time) (reason, by string, yes bool) {
	switch {
	case asked != nil:
		return asked.Reason, asked.By, true
	case every > 0 && now.Sub(rec.RotatedAt) >= every:
		return reasonDue, bySchedule, true
	}
	return "", "", false
}

// raise returns the record with the next epoch in force.
func raise(rec store.SecretRecord, reason, by string, now time.Time) store.SecretRecord {
	rec.Epoch++
	rec.RotatedAt, rec.Reason, rec.By = now, truncateText(reason), truncateText(by)
	return rec
}

// start returns the gossip key's record at the start of a rotation.
func start(rec store.SecretRecord, reason, by string, now time.Time) store.SecretRecord {
	rec.Next = rec.Epoch + 1
	rec.Step, rec.StepSince = store.RotationInstall, now
	rec.Reason, rec.By = truncateText(reason), truncateText(by)
	return rec
}

// Ring is the state of the live members of the gossip pool, by their own reports.
type Ring struct {
	Members int
	// Holding and Primary count members by the epoch of the keys that they have, and of the key
	// that they send with.
	Holding, Primary map[uint32]int
	// Others counts the keys without an epoch in the record.
	Others int
}

// only reports whether every live member has exactly the key of epoch, and sends with it.
func (r Ring) only(epoch uint32) bool {
	others := r.Others
	for e, members := range r.Holding {
		if e != epoch {
			others += members
		}
	}
	return r.Members > 0 && r.Primary[epoch] == r.Members && others == 0
}

// advance returns the record after a step was carried out, based on the ring afterwards. The record
// is unchanged while the step has not had its effect on every member; then the step is repeated.
//
//	rest ─start─► install ─all hold Next─► use ─all send with Next─► settle ─► remove ─no other key left─► rest
func advance(rec store.SecretRecord, ring Ring, now time.Time) store.SecretRecord {
	to := func(step store.RotationStep) { rec.Step, rec.StepSince = step, now }
	switch rec.Step {
	case store.RotationInstall:
		if ring.Members > 0 && ring.Holding[rec.Next] == ring.Members {
			to(store.RotationUse)
		}
	case store.RotationUse:
		// A server can live with this key alone only when all members send with it. So a starting
		// server uses the key only then.
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

// finish returns the record for a ring that differs from the record at rest: the last step of the
// last rotation is carried out again.
func finish(rec store.SecretRecord, now time.Time) store.SecretRecord {
	rec.Step, rec.StepSince = store.RotationRemove, now
	return rec
}

// truncateText bounds an operator's text: the record must always fit.
func truncateText(text string) string {
	const limit = 500
	if len(text) > limit {
		return text[:limit]
	}
	return text
}
