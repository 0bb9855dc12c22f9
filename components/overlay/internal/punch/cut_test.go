package punch

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/pion/stun/v2"
)

// TestAMappedAddressThatIsCutIsAnError: its length is checked before the library reads it.
func TestAMappedAddressThatIsCutIsAnError(t *testing.T) {
	t.Parallel()
	_, _, err := binding(&cutAnswer{})
	if err == nil || !strings.Contains(err.Error(), "4 bytes are no address") {
		t.Errorf("error %v, want the length in its text", err)
	}
}

// cutAnswer answers each request with a success that has a truncated address, which ends
// after its port.
type cutAnswer struct{ bytes.Buffer }

func (c *cutAnswer) Write(request []byte) (int, error) {
	m := new(stun.Message)
	if err := stun.Decode(request, m); err != nil {
		return 0, err
	}
	cut := stun.RawAttribute{Type: stun.AttrXORMappedAddress, Value: []byte{0, 1, 0, 7}}
	answer, err := stun.Build(stun.NewTransactionIDSetter(m.TransactionID), stun.BindingSuccess, cut)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(&c.Buffer, bytes.NewReader(answer.Raw))
	return len(request), err
}
