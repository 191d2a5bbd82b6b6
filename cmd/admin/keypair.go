package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// keyPair is a certificate in files that somebody renews. They are looked at every few seconds at most.
type keyPair struct {
	cert, key string
	log       *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	at     time.Time // of the certificate's file
	looked time.Time
}

const certificateLook = 10 * time.Second

// read reads both files. It requires that mu is held, or that nobody else has the pair yet.
func (k *keyPair) read() error {
	k.looked = time.Now()
	info, err := os.Stat(k.cert)
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(k.cert, k.key)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	k.pair, k.at = &pair, info.ModTime()
	return nil
}

// certificate is that of the files; while they are being written, the one before.
func (k *keyPair) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.looked) < certificateLook {
		return k.pair, nil
	}
	k.looked = time.Now()
	if info, err := os.Stat(k.cert); err == nil && info.ModTime().Equal(k.at) {
		return k.pair, nil
	}
	if err := k.read(); err != nil {
		k.log.LogAttrs(hello.Context(), slog.LevelError, "the changed certificate is not used; the one before still is", slog.Any("error", err))
	}
	return k.pair, nil
}
