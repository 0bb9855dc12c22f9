package audit

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	"cadre.dev/core/strictjson"
)

// Export is the content of a file of `cadre audit export`: the kept entries, oldest first, and the
// signed head. The file has one JSON document in each line, and the head is in the last line.
type Export struct {
	Entries []Entry
	Head    SignedHead
}

// headLine is the last line of a file.
type headLine struct {
	Head *SignedHead `json:"signed_head"`
}

// HeadLine is the last line of a file, as a value for JSON.
func HeadLine(head SignedHead) any { return headLine{&head} }

// maxLine bounds a line of a file.
const maxLine = 4 * MaxEntryBytes

// ParseExport decodes a file, and verifies it: the head is signed by ca for the cluster with
// clusterID, and the entries are the whole chain from the head's checkpoint to the head.
func ParseExport(text []byte, clusterID string, ca ed25519.PublicKey) (Export, error) {
	var out Export
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	last := lines[len(lines)-1]
	var end headLine
	if err := decodeLine(last, &end); err != nil || end.Head == nil {
		return out, broken("the last line has no signed head: the file is cut, or is no export of the audit chain")
	}
	out.Head = *end.Head
	if err := out.Head.Check(clusterID, ca); err != nil {
		return out, err
	}
	v := After(out.Head.Head.Checkpoint)
	for n, line := range lines[:len(lines)-1] {
		var e Entry
		if err := decodeLine(line, &e); err != nil {
			return out, fmt.Errorf("line %d: %w", n+1, broken("it is no entry: %v", err))
		}
		if err := v.Next(e); err != nil {
			return out, fmt.Errorf("line %d: %w", n+1, err)
		}
		out.Entries = append(out.Entries, e)
	}
	return out, v.End(out.Head.Head.Last)
}

func decodeLine(line []byte, into any) error {
	if len(line) > maxLine {
		return fmt.Errorf("%d bytes, at most %d", len(line), maxLine)
	}
	return strictjson.Unmarshal(line, into)
}

// digestAt is the digest of entry number; "" when x does not know it.
func (x Export) digestAt(number uint64) string {
	from := x.Head.Head.Checkpoint
	switch {
	case number == from.Number:
		return from.digest()
	case number < from.Number || number > x.Head.Head.Last.Number:
		return ""
	}
	return x.Entries[number-from.Number-1].Digest()
}

// ErrNoCommonEntry means that two exports have no entry in common, so nothing links them.
var ErrNoCommonEntry = errors.New("the exports have no entry in common")

// Continues checks that the chain of x continues the chain of an earlier export. Both were verified.
// The error names the first entry that differs: the chain was forked or written again.
func (x Export) Continues(earlier Export) error {
	from, old := x.Head.Head.Checkpoint.Number, earlier.Head.Head
	switch {
	case x.Head.ClusterID != earlier.Head.ClusterID:
		return fmt.Errorf("the exports are of different clusters: %q and %q", x.Head.ClusterID, earlier.Head.ClusterID)
	case x.Head.Head.Last.Number < old.Last.Number:
		return broken("the chain ends at entry %d, and the earlier export has entry %d: entries are missing, or the export is the older one", x.Head.Head.Last.Number, old.Last.Number)
	case from > old.Last.Number:
		return fmt.Errorf("%w: one ends at entry %d, and the other begins after entry %d: entries %d to %d are in the leaders' logs only",
			ErrNoCommonEntry, old.Last.Number, from, old.Last.Number+1, from)
	}
	for n := max(from, old.Checkpoint.Number); n <= old.Last.Number; n++ {
		if x.digestAt(n) != earlier.digestAt(n) {
			return broken("entry %d differs from the earlier export: the chain was forked or written again", n)
		}
	}
	return nil
}

// About reports whether the entry concerns an object: its key, a folder of it, the last part of its
// key, or the group of the Slot or rollout that is the last part.
func (e Entry) About(object string) bool {
	object = strings.TrimSuffix(object, "/")
	return object == "" || e.Object == object || strings.HasPrefix(e.Object, object+"/") || strings.HasSuffix(e.Object, "/"+object) ||
		strings.Contains(e.Object, "/"+object+"/") || groupOf(e.Object) == object
}

// groupOf returns the group in a key that ends with the name of a Slot or of a rollout, such as web in
// control/drain/web-2; "" for another key.
func groupOf(key string) string {
	name := key[strings.LastIndexByte(key, '/')+1:]
	group := strings.TrimRight(name, "0123456789")
	if group == name || !strings.HasSuffix(group, "-") {
		return ""
	}
	return strings.TrimSuffix(group, "-")
}
