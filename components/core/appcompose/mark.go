package appcompose

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// MarkPlace stands in a compose text where Render writes the text's mark, as in
// --revision-mark=CADRE_REVISION_MARK among a service's arguments.
const MarkPlace = "CADRE_REVISION_MARK"

var markWritten = regexp.MustCompile(`--revision-mark=[0-9a-f]{64}`)

// Mark is the mark of a compose text that has MarkPlace where the mark will stand: 64 hex
// digits that differ with every other byte of the text.
func Mark(compose string) string {
	sum := sha256.Sum256([]byte("cadre/mark/v1\n" + compose))
	return hex.EncodeToString(sum[:])
}

// Marked is the compose text that is measured: compose with its mark in every MarkPlace.
func Marked(compose string) string {
	return strings.ReplaceAll(compose, MarkPlace, Mark(compose))
}

// CheckMark refuses a mark that a process was started with where it is not the one of the
// measured compose text: the process belongs to a container of another text. A text and a
// process without any mark agree. The text alone gives the right mark, once the mark is
// taken out of it again.
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
