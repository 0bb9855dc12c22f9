package view

import (
	"time"

	"cadre.dev/store"
)

// CountFrom has the ends of switches follow from zero, when by this process's clock no time had
// elapsed for the coordinators yet. It returns v.
func (v *View) CountFrom(zero func() time.Time) *View {
	v.zero = zero
	return v
}

// CountLike has them follow from what other's follow from; nil: from nothing.
func (v *View) CountLike(other *View) *View {
	if other != nil {
		v.zero = other.zero
	}
	return v
}

// CountFrom is CountFrom of all Views to come. Call it before Run.
func (w *Watcher) CountFrom(zero func() time.Time) { w.zero = zero }

// End is when an override ends automatically, by this process's clock; zero: when it is deleted.
func (v *View) End(m store.Override) time.Time {
	if m.Until.IsZero() || m.EndElapsed == 0 || v.zero == nil {
		return m.Until
	}
	return v.zero().Add(time.Duration(min(m.EndElapsed, store.MaxElapsed)) * time.Millisecond).UTC()
}

// Stands reports that an override, which exists, has not ended automatically.
func (v *View) Stands(m store.Override, now time.Time) bool {
	end := v.End(m)
	return end.IsZero() || now.Before(end)
}
