/*
 * Shared by the bench's native programs: the clock, the marker in every written object, a latency histogram, and just
 * enough HTTP/2 for servers that are known (no HPACK decoding: a status is recognized by its static-table byte).
 *
 * They are in C because the load must cost far less than the server it measures: on two cores a Node client saturates
 * long before 10,000 watchers do. Marker, in the value's bytes at an offset divisible by 3 (so that its base64 form,
 * which etcd's JSON gateway sends, is a fixed text too):
 *
 *   @#BENCH#@ | sequence, 12 decimal digits | CLOCK_MONOTONIC nanoseconds at the put, 18 decimal digits   = 39 bytes
 */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAGIC "@#BENCH#@"
#define MAGIC_BASE64 "QCNCRU5DSCNA"
#define MAGIC_BYTES 9
#define SEQUENCE_DIGITS 12
#define STAMP_DIGITS 18
#define MARK_BYTES (MAGIC_BYTES + SEQUENCE_DIGITS + STAMP_DIGITS)

static inline void die(const char *what) {
  fprintf(stderr, "%s: %s\n", what, errno ? strerror(errno) : "unexpected");
  exit(1);
}

static inline uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void put_decimal(char *to, int digits, uint64_t value) {
  for (int i = digits - 1; i >= 0; i--, value /= 10) to[i] = (char)('0' + value % 10);
}

static inline uint64_t get_decimal(const char *from, int digits) {
  uint64_t value = 0;
  for (int i = 0; i < digits; i++) value = value * 10 + (uint64_t)(from[i] - '0');
  return value;
}

/* Writes sequence and stamp behind a magic that the object already holds. */
static inline void set_mark(char *mark, uint64_t sequence, uint64_t stamp) {
  put_decimal(mark + MAGIC_BYTES, SEQUENCE_DIGITS, sequence);
  put_decimal(mark + MAGIC_BYTES + SEQUENCE_DIGITS, STAMP_DIGITS, stamp);
}

/* 32 buckets per power of two: a percentile is at most 3.2 % above the true value. */
typedef struct {
  uint64_t bucket[64 * 64], count, max;
} histogram;

static inline void histogram_add(histogram *h, uint64_t ns) {
  int exponent = ns < 64 ? 0 : 58 - __builtin_clzll(ns);
  h->bucket[exponent * 64 + (int)(ns >> exponent)]++;
  h->count++;
  if (ns > h->max) h->max = ns;
}

static inline double histogram_ms(const histogram *h, double quantile) {
  uint64_t target = (uint64_t)(quantile * (double)h->count), seen = 0;
  for (int i = 0; i < 64 * 64; i++) {
    seen += h->bucket[i];
    if (seen > target) {
      uint64_t upper = ((uint64_t)(i % 64) + 1) << (i / 64);
      return (double)(upper < h->max ? upper : h->max) / 1e6;
    }
  }
  return (double)h->max / 1e6;
}

static inline void print_histogram(const histogram *h) {
  printf("{\"count\":%llu,\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f}",
         (unsigned long long)h->count, histogram_ms(h, 0.5), histogram_ms(h, 0.9), histogram_ms(h, 0.99),
         histogram_ms(h, 0.999), (double)h->max / 1e6);
}

static inline void raise_file_limit(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

/* Deliveries so far, in a file both programs map: the writer's window needs them while it writes. */
static inline volatile uint64_t *map_progress(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, 4096) != 0) die(path);
  void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) die("mmap");
  close(fd);
  return at;
}

/* 0 for the kernel's own choice of a receive buffer and of the largest segment. */
static inline int connect_loopback(int port, int receive_buffer, int segment) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (receive_buffer) setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  if (segment) setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof segment);
  /* An address has 28,000 ports for connections to one server. */
  static int opened;
  int address = opened++ / 10000;
  if (address > 0) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)address)};
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&from, sizeof from) < 0) die("bind");
  }
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
    close(fd);
    return -1;
  }
  return fd;
}

/* A growing run of bytes to send. */
typedef struct {
  char *at;
  size_t length, capacity;
} bytes;

static inline void append(bytes *b, const void *from, size_t length) {
  if (b->length + length > b->capacity) {
    b->capacity = (b->length + length) * 2 + 256;
    b->at = realloc(b->at, b->capacity);
    if (!b->at) die("realloc");
  }
  memcpy(b->at + b->length, from, length);
  b->length += length;
}

static inline void append_text(bytes *b, const char *text) { append(b, text, strlen(text)); }

/* HTTP/2: frame types, and headers as literals without indexing and without Huffman. */
enum { H2_DATA = 0, H2_HEADERS = 1, H2_RST = 3, H2_SETTINGS = 4, H2_PING = 6, H2_GOAWAY = 7, H2_WINDOW = 8 };
enum { H2_END_STREAM = 1, H2_ACK = 1, H2_END_HEADERS = 4, H2_PADDED = 8 };

static inline void h2_frame(bytes *b, uint32_t length, uint8_t type, uint8_t flags, uint32_t stream) {
  uint8_t head[9] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length, type, flags,
                     (uint8_t)(stream >> 24), (uint8_t)(stream >> 16), (uint8_t)(stream >> 8), (uint8_t)stream};
  append(b, head, 9);
}

static inline void h2_window(bytes *b, uint32_t stream, uint32_t more) {
  h2_frame(b, 4, H2_WINDOW, 0, stream);
  uint32_t wire = htonl(more);
  append(b, &wire, 4);
}

/* The preface, with windows so large that the client never holds a server back. */
static inline void h2_preface(bytes *b) {
  append_text(b, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  h2_frame(b, 18, H2_SETTINGS, 0, 0);
  /* no table of header fields, so that each status is literal; no push; stream windows of 2^31-1 */
  append(b, "\0\1\0\0\0\0" "\0\2\0\0\0\0" "\0\4\x7f\xff\xff\xff", 18);
  h2_window(b, 0, 0x7fffffff - 65535);
}

static inline void hpack_length(bytes *b, size_t length) {
  uint8_t byte;
  if (length < 127) {
    byte = (uint8_t)length;
    append(b, &byte, 1);
    return;
  }
  byte = 127;
  append(b, &byte, 1);
  for (length -= 127; length >= 128; length /= 128) {
    byte = (uint8_t)(length % 128 + 128);
    append(b, &byte, 1);
  }
  byte = (uint8_t)length;
  append(b, &byte, 1);
}

static inline void hpack_header(bytes *b, const char *name, const char *value) {
  append(b, "\0", 1);
  hpack_length(b, strlen(name));
  append_text(b, name);
  hpack_length(b, strlen(value));
  append_text(b, value);
}

#endif
