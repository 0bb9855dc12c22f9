package daemon

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cadre.dev/attest"
	"cadre.dev/local/internal/cvminit"
)

// The test binary is also pid 1 of the CVMs and the programs inside them.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 3 && os.Args[1] == "cvm-init":
		err = cvminit.Run(os.Args[3])
	case len(os.Args) > 1 && os.Args[1] == "helper-serve":
		err = Serve(context.Background(), config(os.Args[2], "/proc/self/exe", os.Stderr), nil)
	case len(os.Args) > 1 && os.Args[1] == "helper-tls":
		err = serveTLS(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == "helper-quote":
		err = printQuote(os.Args[2])
	case len(os.Args) > 3 && os.Args[1] == "helper-measured":
		err = printMeasured(os.Args[2], strings.TrimPrefix(os.Args[3], "--revision-mark="))
	case len(os.Args) > 2 && os.Args[1] == "helper-send":
		err = sendHello(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == "helper-receive":
		err = receiveHello()
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveTLS answers each connection with word and echoes.
func serveTLS(word string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	cert := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return err
	}
	l, err := tls.Listen("tcp", ":7443", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func(c net.Conn) {
			defer c.Close()
			_, _ = io.WriteString(c, word+"\n")
			_, _ = io.Copy(c, c)
		}(c)
	}
}

// printQuote prints the evidence for the report data in hex.
func printQuote(reportData string) error {
	data, err := hex.DecodeString(reportData)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ev, err := attest.NewGuestClient("").GetQuote(ctx, data)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(ev)
}

// printMeasured says whether an agent with this trust text and mark may ask for admission in
// this CVM, and stays, as an agent does.
func printMeasured(trust, mark string) error {
	if _, err := attest.CheckMeasured(context.Background(), attest.NewGuestClient(""), []byte(trust), mark); err != nil {
		fmt.Printf("%s refused: %v\n", mark, err)
	} else {
		fmt.Println(mark, "measured")
	}
	select {}
}

const helloPort = 5000

// receiveHello prints the first datagram that comes to helloPort. It opens the port in the NAT with
// a datagram to an unused address.
func receiveHello() error {
	c, err := net.ListenUDP("udp4", &net.UDPAddr{Port: helloPort})
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.WriteToUDP([]byte("open"), &net.UDPAddr{IP: net.IPv4(10, 213, 0, 1), Port: 9}); err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	buf := make([]byte, 100)
	n, _, err := c.ReadFromUDP(buf)
	fmt.Print(string(buf[:n]))
	return err
}

func sendHello(to string) error {
	c, err := net.Dial("udp4", net.JoinHostPort(to, strconv.Itoa(helloPort)))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, "hello")
	return err
}
