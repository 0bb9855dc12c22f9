package appcompose

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MarkPlace is a placeholder in a compose text that Render replaces with the text's mark, as in
// --revision-mark=CADRE_REVISION_MARK among a service's arguments.
const MarkPlace = "CADRE_REVISION_MARK"

var markWritten = regexp.MustCompile(`--revision-mark=[0-9a-f]{64}`)

// Mark returns the mark of a compose text with MarkPlace in place of the mark: 64 hex digits that
// change with every byte of the text.
func Mark(compose string) string {
	sum := sha256.Sum256([]byte("cadre/mark/v1\n" + compose))
	return hex.EncodeToString(sum[:])
}

// Marked is the compose text that is measured: compose with its mark in every MarkPlace.
func Marked(compose string) string {
	return strings.ReplaceAll(compose, MarkPlace, Mark(compose))
}

// CheckMark rejects a process whose mark differs from the measured compose text's: the process
// belongs to a container of another text. A text without a mark accepts a process without one.
// CheckMark computes the right mark from the text alone, after it has replaced the mark with
// MarkPlace.
func CheckMark(measured, mark string) error {
	if mark == "" {
		if markWritten.MatchString(measured) {
			return errors.New("this process was started without --revision-mark, and the measured compose file has one: it belongs to a container of an earlier revision, or its own service lacks the argument")
		}
		return nil
	}
	if len(mark) != 2*sha256.Size || !strings.Contains(measured, mark) || Mark(strings.ReplaceAll(measured, mark, MarkPlace)) != mark {
		return fmt.Errorf("this process was started with --revision-mark=%.64s, which is not the mark of the measured compose file: it belongs to a container of an earlier revision, or the text was not rendered by Cadre with --revision-mark=%s", mark, MarkPlace)
	}
	return nil
}
