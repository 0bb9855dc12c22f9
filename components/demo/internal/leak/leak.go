package leak

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// minCanary is the least length of a canary: shorter ones occur by chance in any large file.
const minCanary = 12

// Canary is a secret whose value is known.
type Canary struct {
	// Name names the secret in reports, which never show the value.
	Name  string
	Value []byte
	// May lists the permitted sinks, by the prefix of their name. The reasons are comments there.
	May []string
}

// Hit is a canary that was found.
type Hit struct {
	Canary, Form, Sink string
	// At is the offset of the first find in the sink.
	At int64
}

// String names the secret and its place.
func (h Hit) String() string {
	return fmt.Sprintf("%s occurs in %s at byte %d as %s", h.Canary, h.Sink, h.At, h.Form)
}

// form is one way in which a canary may be written.
type form struct {
	canary  *Canary
	name    string
	pattern []byte
}

// Scanner looks for canaries. It is constant after New and safe for concurrent use.
type Scanner struct {
	forms   []form
	longest int
	// begins lists the forms by their first two bytes: hundreds of forms are looked
	// for in one pass.
	begins [1 << 16][]int
}

// New takes the canaries; a canary that is too short for a search is an error.
func New(canaries []Canary) (*Scanner, error) {
	s := &Scanner{}
	for i := range canaries {
		c := &canaries[i]
		if len(c.Value) < minCanary {
			return nil, fmt.Errorf("canary %s has %d bytes: shorter than %d it would be found by chance", c.Name, len(c.Value), minCanary)
		}
		for name, pattern := range forms(c.Value) {
			s.forms = append(s.forms, form{canary: c, name: name, pattern: pattern})
			s.longest = max(s.longest, len(pattern))
		}
	}
	slices.SortFunc(s.forms, func(a, b form) int { return strings.Compare(a.canary.Name+a.name, b.canary.Name+b.name) })
	for i, f := range s.forms {
		at := two(f.pattern)
		s.begins[at] = append(s.begins[at], i)
	}
	return s, nil
}

// forms of a value: as it is, and as the usual encoders write it, also in the middle
// of something longer.
func forms(value []byte) map[string][]byte {
	out := map[string][]byte{"raw": value, "hex": []byte(hex.EncodeToString(value)), "HEX": []byte(strings.ToUpper(hex.EncodeToString(value)))}
	for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		// In the middle of other bytes the value begins at any of three places of a
		// group of four characters; the characters at its edges hold other bits too.
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), value...))
			from := (shift*8 + 5) / 6
			to := (shift + len(value)) * 8 / 6
			out[fmt.Sprintf("%s+%d", name, shift)] = []byte(text[from:to])
		}
	}
	if text, err := json.Marshal(string(value)); err == nil {
		out["json"] = text[1 : len(text)-1]
	}
	out["url"] = []byte(url.QueryEscape(string(value)))
	quoted := strconv.Quote(string(value))
	out["quoted"] = []byte(quoted[1 : len(quoted)-1])
	list := strings.Builder{}
	for i, b := range value {
		if i > 0 {
			list.WriteByte(' ')
		}
		list.WriteString(strconv.Itoa(int(b)))
	}
	out["list of bytes"] = []byte(list.String())
	// Forms that equal the value are duplicates.
	for name, pattern := range out {
		if name != "raw" && bytes.Equal(pattern, value) || len(pattern) < minCanary {
			delete(out, name)
		}
	}
	return out
}

// chunk is the part of a sink that is searched at once.
const chunk = 4 << 20

// Scan reads a sink to its end and lists each canary once for each form that occurs, unless it may.
func (s *Scanner) Scan(sink string, r io.Reader) ([]Hit, error) {
	var (
		hits   []Hit
		found  = map[int]bool{}
		buffer = make([]byte, 0, chunk+s.longest)
		offset int64
	)
	for {
		n, err := io.ReadFull(r, buffer[len(buffer):len(buffer)+chunk])
		buffer = buffer[:len(buffer)+n]
		for at := range max(len(buffer)-1, 0) {
			for _, i := range s.begins[two(buffer[at:])] {
				f := s.forms[i]
				if found[i] || !bytes.HasPrefix(buffer[at:], f.pattern) || f.canary.may(sink) {
					continue
				}
				found[i] = true
				hits = append(hits, Hit{Canary: f.canary.Name, Form: f.name, Sink: sink, At: offset + int64(at)})
			}
		}
		if err != nil {
			if err == io.EOF || err == io.ErrUnexpectedEOF {
				return hits, nil
			}
			return hits, fmt.Errorf("scan %s: %w", sink, err)
		}
		// A canary may have begun at the end, so the end is searched again with the next part.
		keep := min(s.longest, len(buffer))
		offset += int64(len(buffer) - keep)
		buffer = buffer[:copy(buffer, buffer[len(buffer)-keep:])]
	}
}

func two(text []byte) int { return int(text[0])<<8 | int(text[1]) }

func (c *Canary) may(sink string) bool {
	return slices.ContainsFunc(c.May, func(prefix string) bool { return strings.HasPrefix(sink, prefix) })
}
