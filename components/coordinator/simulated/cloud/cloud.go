package cloud

import (
	"maps"
	"slices"
	"sync"
	"time"

	"cadre.dev/platform"
)

// Guest is what runs in a CVM. It is told under the lock.
type Guest interface {
	// Boots: it runs from now on.
	Boots()
	// Ends: it runs no more, whether it ran or not, and why.
	Ends(why string)
}

// Why a guest ends.
const (
	Restarts = "restarts"
	Stopped  = "stopped"
	Deleted  = "deleted"
)

// CVM is one that there is, or was. Guarded by the lock.
type CVM[G Guest] struct {
	platform.Instance

	Guest G
	// Env is what it was given last.
	Env map[string]string

	// next is the hash of what it boots, or booted last.
	next string
	// boots counts, so that a restart within a restart counts once.
	boots int
}

// Config of a Cloud. All fields are required.
type Config[G Guest] struct {
	// Lock guards the cloud and its CVMs. It is the owner's, who has state of its own that
	// changes with them.
	Lock sync.Locker
	// Guest is what is to run in a CVM that is made.
	Guest func(*CVM[G]) G
	// BootTakes is from a call until the CVM runs, of its next boot. It is asked under the lock.
	BootTakes func(*CVM[G]) time.Duration
	// Settle is how long it may hide an effect.
	Settle time.Duration
}

// Cloud has the CVMs. Methods with Locked want the lock held; those of a [Link] take it.
type Cloud[G Guest] struct {
	cfg  Config[G]
	cvms map[string]*CVM[G] // by name
	// sorted are the CVMs by name; nil after one came or went.
	sorted []*CVM[G]
	// asked counts the CVMs that were ever asked for.
	asked int
	// documents are what was provisioned, by its hash.
	documents map[string][]byte
}

// New makes an empty one.
func New[G Guest](cfg Config[G]) *Cloud[G] {
	return &Cloud[G]{cfg: cfg, cvms: map[string]*CVM[G]{}, documents: map[string][]byte{}}
}

// AllLocked are the CVMs by name. The caller changes no element: it is made anew when a CVM
// comes or goes.
func (c *Cloud[G]) AllLocked() []*CVM[G] {
	if c.sorted == nil {
		c.sorted = make([]*CVM[G], 0, len(c.cvms))
		for _, name := range slices.Sorted(maps.Keys(c.cvms)) {
			c.sorted = append(c.sorted, c.cvms[name])
		}
	}
	return c.sorted
}

// NamedLocked is the CVM of that name; nil: there is none.
func (c *Cloud[G]) NamedLocked(name string) *CVM[G] { return c.cvms[name] }

// DocumentLocked is what a CVM runs that measures this hash; nil: nobody provisioned it.
func (c *Cloud[G]) DocumentLocked(hash string) []byte { return c.documents[hash] }

func (c *Cloud[G]) byIDLocked(vmUUID string) *CVM[G] {
	for _, one := range c.cvms {
		if one.VMUUID == vmUUID {
			return one
		}
	}
	return nil
}

// RebootLocked takes the CVM down and brings it up again, after a while, as what it was to run.
func (c *Cloud[G]) RebootLocked(one *CVM[G]) { c.bootLocked(one, one.next) }

func (c *Cloud[G]) bootLocked(one *CVM[G], hash string) {
	one.Guest.Ends(Restarts)
	one.InProgress, one.Status, one.next = true, "updating", hash
	one.boots++
	mine := one.boots
	time.AfterFunc(c.cfg.BootTakes(one), func() {
		c.cfg.Lock.Lock()
		defer c.cfg.Lock.Unlock()
		if one.boots != mine || c.cvms[one.Name] != one {
			return
		}
		one.InProgress, one.Status, one.ComposeHash, one.UpdatedAt = false, "running", hash, time.Now()
		one.Guest.Boots()
	})
}

// ChangeLocked has the CVM run hash from its next boot on, which comes at once unless it is stopped: then it
// comes when it is started.
func (c *Cloud[G]) ChangeLocked(one *CVM[G], hash string) {
	if one.Status == Stopped && !one.InProgress {
		one.next, one.ComposeHash, one.UpdatedAt = hash, hash, time.Now()
		return
	}
	c.bootLocked(one, hash)
}

// HaltLocked stops the CVM, as its host's death does: nobody but a call starts it again.
func (c *Cloud[G]) HaltLocked(one *CVM[G]) {
	one.Guest.Ends(Stopped)
	one.InProgress, one.Status, one.ComposeHash, one.UpdatedAt = false, Stopped, one.next, time.Now()
	one.boots++
}

// RemoveLocked takes the CVM and its disk away.
func (c *Cloud[G]) RemoveLocked(one *CVM[G], why string) {
	one.Guest.Ends(why)
	delete(c.cvms, one.Name)
	c.sorted = nil
}
