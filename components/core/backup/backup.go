// Package backup is the file of `cadre cluster backup`: one line with a header, one line for each
// record, and one line with a MAC of all lines before. Each line is a JSON object. The key of the
// MAC is derived from the cluster ID by the coordinators, so only a coordinator of the same cluster
// makes or accepts a file. The file has no secret in the clear.
//
// Inspect checks all but the MAC, on any machine. Open also checks the MAC, before it reads a
// record.
package backup

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"cadre.dev/core/clusterid"
	"cadre.dev/core/policy"
	"cadre.dev/core/strictjson"
)

const (
	// Version is the version of the format.
	Version = 1
	// MaxBytes bounds a file: coordinators keep it in memory.
	MaxBytes = 128 << 20
	// MaxRecords bounds the records of a file.
	MaxRecords = 1 << 20
	// KeySize is the size of the MAC's key in bytes.
	KeySize = 32

	format    = "cadre-backup"
	maxHeader = 16 << 10
	// maxLine bounds the line of one record: the largest record in base64, with its key.
	maxLine = 1 << 20
	maxKey  = 400
)

// Codes that begin the errors of this package. The text names the remedy.
const (
	CodeTruncated = policy.CodeBackupTruncated
	CodeInvalid   = policy.CodeBackupInvalid
	CodeVersion   = policy.CodeBackupVersion
	CodeCluster   = policy.CodeBackupOtherCluster
	CodeMAC       = policy.CodeBackupMACMismatch
	CodeTooLarge  = policy.CodeBackupTooLarge
)

// Error is the reason why a file is refused.
type Error struct {
	Code    policy.Code
	Message string
}

// Error begins with the code.
func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func refuse(code policy.Code, text string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(text, args...)}
}

// Header describes a backup.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Cluster is the name of the cluster, and ClusterID its ID.
	Cluster   string `json:"cluster"`
	ClusterID string `json:"cluster_id"`
	// At is when the records were read, at one moment.
	At time.Time `json:"at"`
	// Term and State are the watermarks of the records.
	Term  uint64 `json:"term"`
	State uint64 `json:"state"`
	// Records is the number of records, and Kinds has the number for each key pattern.
	Records int            `json:"records"`
	Kinds   map[string]int `json:"kinds"`
}

// Record is one record: its key below the prefix, and its bytes.
type Record struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type trailer struct {
	HMAC string `json:"hmac_sha256"`
}

// Encode writes a file. It sets Format, Version and Records of the header. The records must be
// sorted by key.
func Encode(h Header, records []Record, key []byte) ([]byte, error) {
	h.Format, h.Version, h.Records = format, Version, len(records)
	var b bytes.Buffer
	if err := line(&b, h); err != nil {
		return nil, err
	}
	for _, r := range records {
		if err := line(&b, r); err != nil {
			return nil, err
		}
		if b.Len() > MaxBytes {
			return nil, refuse(CodeTooLarge, "the records need more than %d MiB", MaxBytes>>20)
		}
	}
	if err := line(&b, trailer{HMAC: hex.EncodeToString(mac(b.Bytes(), key))}); err != nil {
		return nil, err
	}
	// The result is never a file that Open refuses.
	_, _, err := Open(b.Bytes(), Expect{h.Cluster, h.ClusterID}, key)
	return b.Bytes(), err
}

func line(b *bytes.Buffer, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode a line of the backup: %w", err)
	}
	b.Write(text)
	b.WriteByte('\n')
	return nil
}

func mac(body, key []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(body)
	return m.Sum(nil)
}

// Expect is the cluster that a file must be of.
type Expect struct{ Cluster, ClusterID string }

// Inspect checks size, form, version, cluster and completeness of a file. An edited record passes:
// only Open finds it.
func Inspect(file []byte, want Expect) (Header, error) {
	h, body, _, err := split(file, want)
	if err != nil {
		return h, err
	}
	_, err = records(h, body)
	return h, err
}

// Open is Inspect with the MAC, and returns the records. It reads no record before the MAC is
// right.
func Open(file []byte, want Expect, key []byte) (Header, []Record, error) {
	if len(key) != KeySize {
		return Header{}, nil, fmt.Errorf("backup: the key has %d bytes, want %d", len(key), KeySize)
	}
	h, body, sum, err := split(file, want)
	if err != nil {
		return h, nil, err
	}
	if !hmac.Equal(mac(file[:len(file)-lastLine(file)], key), sum) {
		return h, nil, refuse(CodeMAC, "the file was edited or damaged, or was made by another set of coordinators: take an unchanged copy of it")
	}
	all, err := records(h, body)
	return h, all, err
}

// lastLine returns the length of the last line with its end.
func lastLine(file []byte) int {
	return len(file) - 1 - bytes.LastIndexByte(file[:len(file)-1], '\n')
}

// split reads the first and the last line.
func split(file []byte, want Expect) (h Header, body, sum []byte, err error) {
	if len(file) > MaxBytes+maxHeader {
		return h, nil, nil, refuse(CodeTooLarge, "the file has %d bytes, at most %d MiB", len(file), MaxBytes>>20)
	}
	first, rest, whole := bytes.Cut(file, []byte{'\n'})
	switch {
	case len(first) > maxHeader || len(first) == 0 || first[0] != '{':
		return h, nil, nil, refuse(CodeInvalid, "this is no backup: the first line is no header of `cadre cluster backup`")
	case !whole:
		return h, nil, nil, refuse(CodeTruncated, "the file ends within its header: take a complete copy of it")
	}
	var tag struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if err := strictjson.UnmarshalOpen(first, &tag); err != nil || tag.Format != format {
		return h, nil, nil, refuse(CodeInvalid, "this is no backup: the first line is no header of `cadre cluster backup`")
	}
	if tag.Version != Version {
		return h, nil, nil, refuse(CodeVersion, "version: the file has format version %d, and this program reads version %d: use the program that made the file", tag.Version, Version)
	}
	if err := strictjson.Unmarshal(first, &h); err != nil {
		return h, nil, nil, refuse(CodeInvalid, "header: %v", err)
	}
	if err := h.check(want); err != nil {
		return h, nil, nil, err
	}
	if len(rest) == 0 || rest[len(rest)-1] != '\n' {
		return h, nil, nil, refuse(CodeTruncated, "the file ends within a line; its header promises %d records: take a complete copy of it", h.Records)
	}
	n := lastLine(file)
	if n > maxHeader || n >= len(file)-len(first) {
		return h, nil, nil, refuse(CodeTruncated, "the last line, with the MAC, is missing; the header promises %d records: take a complete copy of the file", h.Records)
	}
	var end trailer
	if strictjson.Unmarshal(file[len(file)-n:], &end) != nil {
		return h, nil, nil, refuse(CodeTruncated, "the last line, with the MAC, is missing; the header promises %d records: take a complete copy of the file", h.Records)
	}
	sum, err = hex.DecodeString(end.HMAC)
	if err != nil || len(sum) != sha256.Size || hex.EncodeToString(sum) != end.HMAC {
		return h, nil, nil, refuse(CodeInvalid, "hmac_sha256: want %d lower-case hex characters", 2*sha256.Size)
	}
	return h, rest[:len(rest)-n], sum, nil
}

func (h Header) check(want Expect) error {
	switch {
	case clusterid.Check(h.ClusterID) != nil:
		return refuse(CodeInvalid, "%v", clusterid.Check(h.ClusterID))
	case h.Cluster != want.Cluster:
		return refuse(CodeCluster, "cluster: the file is of cluster %.64q, and this is cluster %q", h.Cluster, want.Cluster)
	case h.ClusterID != want.ClusterID:
		return refuse(CodeCluster, "cluster_id: the file is of cluster ID %s, and this is cluster ID %s: another set of coordinators made it", h.ClusterID, want.ClusterID)
	case h.Records < 1 || h.Records > MaxRecords:
		return refuse(CodeInvalid, "records: %d is not from 1 to %d", h.Records, MaxRecords)
	case h.At.IsZero():
		return refuse(CodeInvalid, "at: is missing")
	}
	total := 0
	for pattern, n := range h.Kinds {
		if n < 1 || n > h.Records {
			return refuse(CodeInvalid, "kinds: %.80q has %d records of %d", pattern, n, h.Records)
		}
		total += n
	}
	if total != h.Records {
		return refuse(CodeInvalid, "kinds: their sum is %d, and records is %d", total, h.Records)
	}
	return nil
}

// records reads the lines between the first and the last one.
func records(h Header, body []byte) ([]Record, error) {
	if n := bytes.Count(body, []byte{'\n'}); n != h.Records {
		return nil, refuse(CodeTruncated, "the file has %d records, and its header promises %d: take a complete copy of the file", n, h.Records)
	}
	out := make([]Record, 0, h.Records)
	for text := range bytes.Lines(body) {
		var r Record
		n := len(out) + 1
		if len(text) > maxLine {
			return nil, refuse(CodeInvalid, "record %d: %d bytes, at most %d", n, len(text), maxLine)
		}
		if err := strictjson.Unmarshal(text, &r); err != nil {
			return nil, refuse(CodeInvalid, "record %d: %v", n, err)
		}
		switch {
		case r.Key == "" || len(r.Key) > maxKey:
			return nil, refuse(CodeInvalid, "record %d: key: want 1 to %d bytes", n, maxKey)
		case len(out) > 0 && r.Key <= out[len(out)-1].Key:
			return nil, refuse(CodeInvalid, "record %d: key: %.80q does not come after %.80q", n, r.Key, out[len(out)-1].Key)
		}
		out = append(out, r)
	}
	return out, nil
}

// CodeOf returns the code of an error of this package; "" if err is none.
func CodeOf(err error) policy.Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}
