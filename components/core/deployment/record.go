package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Bounds of a deployment. One transaction of Consul moves the record and writes every spec, so the
// bounds follow from those of a transaction.
const (
	MaxGroups = 15
	// MaxBytes bounds the JSON of all specs of a document together.
	MaxBytes = 200 << 10
	// MaxVersions is how many versions a record keeps, the present one included.
	MaxVersions = 20
	// MaxLabels bounds the labels of a document, and MaxLabelBytes each name and value.
	MaxLabels     = 8
	MaxLabelBytes = 63
)

// Record is the record at deployments/<name>: the versions of a deployment, the present one last.
type Record struct {
	Name     string    `json:"name"`
	Versions []Version `json:"versions"`
}

// Version is the content that one call wrote.
type Version struct {
	// Number counts from 1, and is never used again while the record exists.
	Number int       `json:"number"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	// Request is the id of the call.
	Request string `json:"request"`
	Reason  string `json:"reason,omitempty"`
	// Of is the earlier version that an undo brought back; 0: the version is no undo.
	Of     int               `json:"of,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	// Groups has the digest of each group's spec, by the group's name.
	Groups map[string]string `json:"groups"`
}

// Digest names the content of a spec: SHA-256 of its text, 64 hex digits.
func Digest(spec []byte) string {
	sum := sha256.Sum256(spec)
	return hex.EncodeToString(sum[:])
}

// Present is the newest version; ok is false in a record without one.
func (r Record) Present() (v Version, ok bool) {
	if len(r.Versions) == 0 {
		return Version{}, false
	}
	return r.Versions[len(r.Versions)-1], true
}

// Version returns a kept version.
func (r Record) Version(number int) (Version, bool) {
	i := slices.IndexFunc(r.Versions, func(v Version) bool { return v.Number == number })
	if i < 0 {
		return Version{}, false
	}
	return r.Versions[i], true
}

// Before returns the version that an undo without a number goes back to: the newest one before the present
// one whose content differs. After an undo two versions may be meant, and the error names both.
func (r Record) Before() (Version, error) {
	present, ok := r.Present()
	if !ok {
		return Version{}, fmt.Errorf("deployment %s has no version", r.Name)
	}
	before := func(is Version) (Version, bool) {
		for _, v := range slices.Backward(r.Versions) {
			if v.Number < is.Number && v.Number != present.Of && !v.Same(present) {
				return v, true
			}
		}
		return Version{}, false
	}
	v, found := before(present)
	switch {
	case !found:
		return v, fmt.Errorf("deployment %s has no version before %d with another content: apply an earlier file", r.Name, present.Number)
	case present.Of == 0:
		return v, nil
	}
	choices := fmt.Sprintf("--to %d goes forth again", v.Number)
	if further, is := before(Version{Number: present.Of}); is {
		choices += fmt.Sprintf(", --to %d further back", further.Number)
	}
	return v, fmt.Errorf("version %d of deployment %s is itself an undo, so that two things may be meant: %s", present.Number, r.Name, choices)
}

// Same reports whether two versions have the same labels and specs.
func (v Version) Same(other Version) bool {
	return maps.Equal(v.Labels, other.Labels) && maps.Equal(v.Groups, other.Groups)
}

// Append returns r with v as its present version, under the next number. The oldest versions beyond
// MaxVersions are left out.
func (r Record) Append(v Version) Record {
	last, _ := r.Present()
	v.Number = last.Number + 1
	versions := append(slices.Clone(r.Versions), v)
	r.Versions = versions[max(0, len(versions)-MaxVersions):]
	return r
}

// Refers reports whether a kept version has a spec of this digest.
func (r Record) Refers(digest string) bool {
	return slices.ContainsFunc(r.Versions, func(v Version) bool {
		return slices.Contains(slices.Collect(maps.Values(v.Groups)), digest)
	})
}

// Names are the groups of a version, sorted.
func (v Version) Names() []string { return slices.Sorted(maps.Keys(v.Groups)) }
