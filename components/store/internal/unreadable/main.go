// Command unreadable reads the output of `consul kv export cadre/v1/` from its standard input, and prints each record
// that this version of Cadre rejects, with the reason. scripts/mixed builds the command in an earlier version too, and
// so finds the records that the earlier version cannot read.
//
// Exit code 0: all records are readable; 1: a line was printed for each unreadable record; 2: the input is no export.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"cadre.dev/store"
)

// prefix of every record's key in Consul.
const prefix = "cadre/v1/"

// exported is one record as Consul's tool exports it.
type exported struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

func main() {
	bad, err := unreadable(os.Stdin)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "unreadable:", err)
		os.Exit(2)
	case len(bad) > 0:
		fmt.Println(strings.Join(bad, "\n"))
		os.Exit(1)
	}
}

// unreadable returns "<key>: <reason>" for each record that this version rejects.
func unreadable(export io.Reader) ([]string, error) {
	var all []exported
	if err := json.NewDecoder(export).Decode(&all); err != nil {
		return nil, fmt.Errorf("standard input is not the output of `consul kv export`: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("standard input has no records: export with a token that may read " + prefix)
	}
	var bad []string
	for _, one := range all {
		key, found := strings.CutPrefix(one.Key, prefix)
		if !found {
			return nil, fmt.Errorf("key %q is not below %s: export this prefix only", one.Key, prefix)
		}
		if err := read(key, one.Value); err != nil {
			bad = append(bad, key+": "+err.Error())
		}
	}
	return bad, nil
}

// read decodes a record as strictly as the store does.
func read(key string, text []byte) error {
	kind, err := store.KindOf(key)
	if err != nil {
		return err
	}
	if len(text) > kind.MaxBytes {
		return fmt.Errorf("%w: %d bytes, at most %d", store.ErrTooLarge, len(text), kind.MaxBytes)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(reflect.New(kind.Type).Interface())
}
