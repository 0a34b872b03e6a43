// SPDX-License-Identifier: Apache-2.0
//
// What libcrypt.a and libstdc++.a of Debian 12 ask glibc 2.36 for, made of what there is since 2.25.
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

void arc4random_buf(void* out, size_t size);
uint32_t arc4random(void);

void arc4random_buf(void* out, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t got = getrandom((char*)out + done, size - done, 0);
    if (got < 0 && errno != EINTR) abort();  // it has no way to fail
    if (got > 0) done += (size_t)got;
  }
}

uint32_t arc4random(void) {
  uint32_t value;
  arc4random_buf(&value, sizeof value);
  return value;
}
