package pki

import (
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

const (
	certBlock = "CERTIFICATE"
	keyBlock  = "EC PRIVATE KEY"
)

func exists(pair Pair) bool {
	for _, file := range []string{pair.CertFile, pair.KeyFile} {
		if _, err := os.Stat(file); err != nil {
			return false
		}
	}
	return true
}

func readCertificate(file string) (*x509.Certificate, error) {
	der, err := readPEM(file, certBlock)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func readKey(file string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(file, keyBlock)
	if err != nil {
		return nil, err
	}
	return x509.ParseECPrivateKey(der)
}

func readPEM(file, kind string) ([]byte, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil || block.Type != kind {
		return nil, fmt.Errorf("%s holds no %s block", file, kind)
	}
	return block.Bytes, nil
}

func writeCertificate(file string, der []byte) error {
	return writeWhole(file, pem.EncodeToMemory(&pem.Block{Type: certBlock, Bytes: der}), 0o644)
}

func writeKey(file string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding a key: %w", err)
	}
	return writeWhole(file, pem.EncodeToMemory(&pem.Block{Type: keyBlock, Bytes: der}), 0o600)
}

// writeWhole writes all or nothing, so that a start that was killed half-way leaves no partial file.
func writeWhole(file string, content []byte, mode os.FileMode) error {
	temp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	if _, err := temp.Write(content); err != nil {
		_ = temp.Close()
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	if err := os.Chmod(temp.Name(), mode); err != nil {
		return err
	}
	return os.Rename(temp.Name(), file)
}
