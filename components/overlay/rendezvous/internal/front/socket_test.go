package front

import (
	"strings"
	"testing"

	"cadre.dev/overlay/internal/mailbox"
)

func TestAnAnswerThatIsTooLongIsARefusal(t *testing.T) {
	long := mailbox.Frame{Type: mailbox.FrameFound, ID: 7, Boots: []mailbox.Boot{{Chain: [][]byte{make([]byte, mailbox.MaxFrame)}}}}
	if got := fitting(long); got.Type != mailbox.FrameRefused || got.ID != 7 || got.Code != mailbox.CodeTooLarge {
		t.Errorf("got %s %d %s, want a refusal", got.Type, got.ID, got.Code)
	}
	chain := [][]byte{}
	for range mailbox.MaxChain {
		chain = append(chain, make([]byte, mailbox.MaxCertificate))
	}
	most := mailbox.Frame{Type: mailbox.FrameFound, ID: 1 << 63}
	for range mailbox.MaxBoots {
		most.Boots = append(most.Boots, mailbox.Boot{Boot: strings.Repeat("0", 64), Chain: chain})
	}
	if got := fitting(most); got.Type != mailbox.FrameFound {
		t.Errorf("the longest answer that may be does not fit: %s", got.Code)
	}
}
